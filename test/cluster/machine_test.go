package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// machineState returns everything on the host that a cluster could leave behind.
func machineState(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"processes":  clusterProcesses(t),
		"mounts":     fileColumn(t, "/proc/self/mountinfo", 4),
		"namespaces": processNamespaces(t),
		"loops":      commandLines(t, "losetup", "--list", "--noheadings", "--output=NAME,BACK-FILE"),
		"links":      firstFields(commandLines(t, "ip", "-brief", "link")),
		"netns":      commandLines(t, "ip", "netns", "list"),
		"routes":     commandLines(t, "ip", "route"),
		"iptables":   iptablesRules(t),
		"cgroups":    glob(t, "/sys/fs/cgroup/holdfast*", "/sys/fs/cgroup/*/holdfast*"),
		"sysctls": commandLines(t, "sysctl", "vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
			"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", "net.ipv4.ip_forward"),
		"files": glob(t, "/run/netns", "/run/containerd", "/run/holdfast", "/run/nri", "/run/xtables.lock", "/run/flannel",
			"/var/log/pods", "/var/log/containers", "/var/lib/cni*", "/var/lib/kubelet*", "/var/lib/containerd*",
			"/opt/cni", "/opt/containerd", "/etc/cni", "/etc/kubernetes", os.TempDir()+"/cluster-*/data"),
	}
}

// clusterProcesses returns the processes with a data directory of these tests.
func clusterProcesses(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, file := range glob(t, "/proc/[0-9]*/cmdline") {
		cmdline, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(cmdline), os.TempDir()+"/cluster-") {
			found = append(found, strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	slices.Sort(found)
	return found
}

// verifyMachineUnchanged compares for a few seconds, because a killed init is visible until it is reaped.
func verifyMachineUnchanged(t *testing.T, before map[string][]string) {
	t.Helper()
	var diff string
	for range 50 {
		if diff = cmp.Diff(before, machineState(t)); diff == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("left behind on the machine (-before +after):\n%s", diff)
}

// processNamespaces returns the processes in separate namespaces, as those of a node are.
func processNamespaces(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, kind := range []string{"net", "mnt", "pid"} {
		for _, link := range glob(t, "/proc/[0-9]*/ns/"+kind) {
			if target, err := os.Readlink(link); err == nil {
				found = append(found, target)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// iptablesRules returns the names of all chains, without packet counters.
func iptablesRules(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, line := range commandLines(t, "iptables-save") {
		if strings.HasPrefix(line, ":") || strings.HasPrefix(line, "-A") {
			found = append(found, strings.Fields(line)[0]+" "+strings.Fields(line)[1])
		}
	}
	return found
}

func fileColumn(t *testing.T, file string, column int) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		found = append(found, strings.Fields(line)[column])
	}
	slices.Sort(found)
	return found
}

func commandLines(t *testing.T, name string, args ...string) []string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return lines
}

func firstFields(lines []string) []string {
	var names []string
	for _, l := range lines {
		names = append(names, strings.Fields(l)[0])
	}
	return names
}

func glob(t *testing.T, patterns ...string) []string {
	t.Helper()
	var found []string
	for _, p := range patterns {
		matches, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}
