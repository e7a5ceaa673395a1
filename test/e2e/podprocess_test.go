package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// killProgram kills the program of a pod, as the kernel does when memory is short.
func killProgram(t *testing.T, uid string, matches func(dir string) bool) {
	t.Helper()
	pids := podProcesses(t, uid, matches)
	if len(pids) != 1 {
		t.Fatalf("the pod %s has %d such programs", uid, len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// podProcesses are the processes of a pod that are such a program. A pod has others: one that holds its network,
// and those of probes.
func podProcesses(t *testing.T, uid string, matches func(dir string) bool) []int {
	t.Helper()
	clusterProcess(t, "kubelet") // only on a cluster of our own
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

// isHoldfast knows the programs of Holdfast, which have nothing beside them but what holds the network; that is told
// nothing of the cluster.
func isHoldfast(dir string) bool {
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	return err == nil && strings.Contains(string(environment), "KUBERNETES_SERVICE_HOST=")
}

func isMariaDB(dir string) bool { return commandName(dir) == "mariadbd" }

// commandName is the name of the program of a process.
func commandName(dir string) string {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	program, _, _ := strings.Cut(string(line), "\x00")
	if err != nil || program == "" {
		return ""
	}
	return filepath.Base(program)
}
