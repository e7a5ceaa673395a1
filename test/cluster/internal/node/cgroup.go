package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupHierarchies returns the cgroup hierarchies: one with version 2, one per controller with version 1.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() { // links are aliases
			roots = append(roots, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	return roots, nil
}

// delegateControllers enables all controllers below the root of a version 2 hierarchy: the kubelet needs them in its own
// cgroup.
func delegateControllers() error {
	controllers, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // version 1 has a hierarchy for each
	}
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("enable controller %s: %w", c, err)
		}
	}
	return nil
}

// makeCgroups creates the cgroup of the node in every hierarchy. A new cpuset allows no CPU until it is configured.
func makeCgroups(name string) error {
	if err := delegateControllers(); err != nil {
		return err
	}
	roots, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, f))
			if err != nil {
				continue // another controller
			}
			if err := os.WriteFile(filepath.Join(root, name, f), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes the cgroups of the node, innermost first.
func removeCgroups(name string) error {
	roots, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
				errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			}
		}
	}
	return errors.Join(errs...)
}
