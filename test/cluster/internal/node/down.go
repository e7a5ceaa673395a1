package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/storage"
)

const endTimeout = 20 * time.Second

// Down ends the cluster in dir and removes everything it made, whatever state it is
// in, also when its folder is gone. Nothing there is fine.
func Down(dir string, out io.Writer) error {
	start := time.Now()
	pids, err := findClusterProcesses(dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := endCluster(pid, dir); err != nil {
			return err
		}
	}
	c := Config{Dir: dir}
	if os.Geteuid() == 0 { // others cannot have started a node
		if err := cleanNode(c); err != nil {
			return err
		}
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && len(pids) == 0 {
		fmt.Fprintf(out, "no cluster in %s\n", dir)
		return nil
	}
	if err := removeDataDir(dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "cluster in %s is gone (%.1f s)\n", dir, time.Since(start).Seconds())
	return nil
}

// cleanNode removes what the kernel does not with the namespaces.
func cleanNode(c Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := storage.Detach(ctx, c.Volumes()); err != nil {
		return fmt.Errorf("detach loop devices: %w", err)
	}
	if err := retryWhileBusy(func() error { return removeCgroups(c.cgroup()) }); err != nil {
		return fmt.Errorf("remove cgroup folders: %w", err)
	}
	return nil
}

// endCluster kills the process that all others of the cluster depend on, and waits for them:
// those of a node end with its pid namespace, those of a control plane with their
// parent.
func endCluster(pid int, dir string) error {
	root, err := openProcess(pid)
	if err != nil {
		return err
	}
	defer root.close()
	if !isClusterProcess(pid, dir) {
		return nil // ended before it was opened; the pid may be somebody else's now
	}
	pids, err := descendants(pid)
	if err != nil {
		return err
	}
	handles := []processHandle{root}
	for _, child := range pids {
		h, err := openProcess(child)
		if err != nil {
			return err
		}
		defer h.close()
		handles = append(handles, h)
	}
	if err := root.kill(); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	for _, h := range handles {
		if exited, err := h.waitExit(int(endTimeout.Seconds())); err != nil || !exited {
			return fmt.Errorf("the cluster in %s was killed (process %d), but does not end: %w", dir, pid, err)
		}
	}
	return nil
}

// removeDataDir deletes the data folder, but only one that a cluster has made. The file that
// says so goes last: a removal that is interrupted can be repeated.
func removeDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	marker := filepath.Join(dir, configFile)
	if len(entries) > 0 {
		if _, err := os.Stat(marker); err != nil {
			return fmt.Errorf("%s is not the data folder of a cluster: not removed", dir)
		}
	}
	return retryWhileBusy(func() error {
		for _, e := range entries {
			if e.Name() == configFile {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if err := os.Remove(marker); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return os.Remove(dir)
	})
}

// retryWhileBusy repeats what fails because the kernel still tidies up behind a namespace that
// has just ended: it unmounts and empties cgroups a moment after the last process.
func retryWhileBusy(attempt func() error) error {
	deadline := time.Now().Add(endTimeout)
	for {
		err := attempt()
		busy := errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY)
		if !busy || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
