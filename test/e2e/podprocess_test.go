package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// killProgram kills the matching process of a pod with SIGKILL, as the OOM killer does.
func killProgram(t *testing.T, uid string, matches func(dir string) bool) {
	t.Helper()
	pids := podProcesses(t, uid, matches)
	if len(pids) != 1 {
		t.Fatalf("pod %s has %d matching processes, want 1", uid, len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// podProcesses returns the matching processes of a pod. A pod has other processes, too: the pause container and probes.
func podProcesses(t *testing.T, uid string, matches func(dir string) bool) []int {
	t.Helper()
	clusterProcess(t, "kubelet") // requires a cluster started by the suite
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		dir := filepath.Dir(file)
		group, err := os.ReadFile(file)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(group), "_", "-"), uid) || !matches(dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// isHoldfast matches the container of a Holdfast pod: the pause container does not have this variable.
func isHoldfast(dir string) bool {
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	return err == nil && strings.Contains(string(environment), "KUBERNETES_SERVICE_HOST=")
}

func isMariaDB(dir string) bool { return commandName(dir) == "mariadbd" }

// commandName returns the name of the program of a process.
func commandName(dir string) string {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	program, _, _ := strings.Cut(string(line), "\x00")
	if err != nil || program == "" {
		return ""
	}
	return filepath.Base(program)
}
