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

// Down stops the cluster in dir in any state and removes everything it created, even if the directory was deleted. A
// missing cluster is not an error.
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
	if os.Geteuid() == 0 { // a node requires root
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
	fmt.Fprintf(out, "cluster in %s removed (%.1f s)\n", dir, time.Since(start).Seconds())
	return nil
}

// cleanNode removes what the kernel does not remove with the namespaces.
func cleanNode(c Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := storage.Detach(ctx, c.Volumes()); err != nil {
		return fmt.Errorf("detach loop devices: %w", err)
	}
	if err := retryWhileBusy(func() error { return removeCgroups(c.cgroup()) }); err != nil {
		return fmt.Errorf("remove cgroups: %w", err)
	}
	return nil
}

// endCluster kills the root process of the cluster and waits for all others: those of a node are killed with its PID
// namespace, those of a control plane with their parent.
func endCluster(pid int, dir string) error {
	root, err := openProcess(pid)
	if err != nil {
		return err
	}
	defer root.close()
	if !isClusterProcess(pid, dir) {
		return nil // exited before it was opened; the PID may be reused
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
			return fmt.Errorf("the cluster in %s was killed (process %d), but did not exit: %w", dir, pid, err)
		}
	}
	return nil
}

// removeDataDir deletes the data directory of a cluster, and no other directory. The configuration file is deleted last,
// so that an interrupted removal can be repeated.
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
			return fmt.Errorf("%s is not the data directory of a cluster: not removed", dir)
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

// retryWhileBusy retries operations that fail while the kernel cleans up a namespace: mounts and cgroups are released a
// moment after the last process.
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
