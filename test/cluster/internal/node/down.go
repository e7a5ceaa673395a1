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

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/storage"
)

const endTimeout = 20 * time.Second

// Down ends the cluster in dir and removes everything it made, whatever state it is
// in. Nothing there is fine.
func Down(dir string, out io.Writer) error {
	start := time.Now()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(out, "no cluster in %s\n", dir)
		return nil
	}
	c := Config{Dir: dir}
	if err := end(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := storage.Detach(ctx, c.Volumes()); err != nil {
		return fmt.Errorf("detach loop devices: %w", err)
	}
	if err := removeCgroups(c.cgroup()); err != nil {
		return fmt.Errorf("remove cgroup folders: %w", err)
	}
	if err := remove(dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "cluster in %s is gone (%.1f s)\n", dir, time.Since(start).Seconds())
	return nil
}

// end kills the process that all others depend on and waits for them: those of a
// node end with its pid namespace, those of a control plane with their parent.
func end(dir string) error {
	root, err := find(dir)
	if err != nil {
		return err
	}
	others, err := belonging(dir)
	if err != nil {
		return err
	}
	if root != 0 {
		others = append(others, root)
	}
	// Handles instead of pids: they stay valid, and tell when a process has really
	// ended. That of a namespace's init does so after all its other processes.
	handles := map[int]int{}
	for _, pid := range others {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue // ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("open pid %d: %w", pid, err)
		}
		defer func() { _ = unix.Close(fd) }()
		handles[pid] = fd
	}
	if fd, ok := handles[root]; ok {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill pid %d: %w", root, err)
		}
	}
	for pid, fd := range handles {
		if err := awaitEnd(fd); err != nil {
			return fmt.Errorf("process %d of %s: %w", pid, dir, err)
		}
	}
	return nil
}

func awaitEnd(pidfd int) error {
	deadline := time.Now().Add(endTimeout)
	for time.Now().Before(deadline) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 1000)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("still runs %s after its parent was killed", endTimeout)
}

// remove deletes the data folder, but only one that a cluster has made.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, "cluster.json")); err != nil {
			return fmt.Errorf("%s is not the data folder of a cluster: not removed", dir)
		}
	}
	// The kernel unmounts the volumes of a dead namespace a moment after its last
	// process has ended.
	deadline := time.Now().Add(endTimeout)
	for {
		err := os.RemoveAll(dir)
		if err == nil || !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
