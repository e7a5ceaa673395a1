package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// findClusterProcesses returns the root processes of the cluster in dir: init or supervise. It searches /proc, because a
// PID file would be stale after a crash.
func findClusterProcesses(dir string) ([]int, error) {
	pids, err := listPIDs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !isClusterProcess(pid, dir) }), nil
}

// isClusterProcess reports whether a process is the init or supervise of the cluster in dir.
func isClusterProcess(pid int, dir string) bool {
	cmdline, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil {
		return false // exited meanwhile
	}
	args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	return len(args) == 3 && (args[1] == "init" || args[1] == "supervise") && args[2] == dirFlag(dir)
}

// descendants returns all descendants of a process.
func descendants(root int) ([]int, error) {
	pids, err := listPIDs()
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, pid := range pids {
		parents[pid] = parentPID(pid)
	}
	return slices.DeleteFunc(pids, func(pid int) bool {
		for pid != 0 && pid != root {
			pid = parents[pid]
		}
		return pid == 0
	}), nil
}

func listPIDs() ([]int, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(filepath.Base(e)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// parentPID returns the parent PID, or 0 if there is none or the process has exited.
func parentPID(pid int) int {
	stat, err := os.ReadFile(procFile(pid, "stat")) // 7 (name) S 1 ...
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// processHandle is a pidfd, because PIDs are reused. It is -1 for a process that has exited.
type processHandle int

func openProcess(pid int) (processHandle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("open process %d: %w", pid, err)
	}
	return processHandle(fd), nil
}

func (h processHandle) kill() error {
	if h < 0 {
		return nil
	}
	if err := unix.PidfdSendSignal(int(h), unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// waitExit waits until the process has exited. The init of a PID namespace exits after all other processes in it.
func (h processHandle) waitExit(seconds int) (bool, error) {
	if h < 0 {
		return true, nil
	}
	for range seconds {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h), Events: unix.POLLIN}}, 1000)
		if n > 0 {
			return true, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
	}
	return false, nil
}

func (h processHandle) close() {
	if h >= 0 {
		_ = unix.Close(int(h))
	}
}
