package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// find returns the pid of the init or supervise that runs the cluster in dir, or 0.
// It asks the kernel, not a pid file: that one would be wrong after a crash.
func find(dir string) (int, error) {
	pids, err := processes(func(args []string) bool {
		return len(args) == 3 && (args[1] == "init" || args[1] == "supervise") && args[2] == dirFlag(dir)
	})
	if err != nil || len(pids) == 0 {
		return 0, err
	}
	return slices.Min(pids), nil
}

// belonging returns the processes that were started with a path below dir.
func belonging(dir string) ([]int, error) {
	return processes(func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, dir+"/") })
	})
}

func processes(match func(args []string) bool) ([]int, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		cmdline, err := os.ReadFile(filepath.Join(e, "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // ended meanwhile, a zombie, or a kernel thread
		}
		args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
		pid, err := strconv.Atoi(filepath.Base(e))
		if err == nil && pid != os.Getpid() && match(args) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
