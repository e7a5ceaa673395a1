package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestOutages stops the operator, its Lease and the API server. Reconciliation must resume within 30 s, without an
// effect on the pods of the application.
func TestOutages(t *testing.T) {
	requireInstalled(t)
	g := NewWithT(t)
	const ns = "e2e-outages"
	kubectl(t, "create", "namespace", ns)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", ns, "--wait=false") })
	apply(t, ns, appServiceManifest("web", "localhost/web:1", twoReplicasOnPort80))
	waitReady(t, ns, "web")
	pods := func() string {
		return kubectl(t, "-n", ns, "get", "pods", "-l", "app.kubernetes.io/instance=web", "-o",
			`jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	}
	before := pods()
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"operator pod deleted", func(t *testing.T) {
			kubectl(t, "-n", "holdfast-system", "delete", "pod", "-l", "app.kubernetes.io/component=operator", "--wait=false")
		}},
		{"lease lost", func(t *testing.T) {
			restarts := func() string {
				return kubectl(t, "-n", "holdfast-system", "get", "pods", "-l", "app.kubernetes.io/component=operator", "-o",
					"jsonpath={.items[*].status.containerStatuses[0].restartCount}")
			}
			was := restarts()
			kubectl(t, "-n", "holdfast-system", "patch", "lease", "holdfast-operator", "--type=merge", "-p", `{"spec":{"holderIdentity":"somebody-else"}}`)
			g.Eventually(restarts, "20s", "100ms").ShouldNot(Equal(was), "an operator that lost its Lease must exit")
		}},
		{"API server killed", func(t *testing.T) { signalComponent(t, "kube-apiserver", syscall.SIGKILL) }},
		{fmt.Sprintf("API server down for %s", outageDuration()), func(t *testing.T) {
			signalComponent(t, "kube-apiserver", syscall.SIGSTOP)
			time.Sleep(outageDuration())
			signalComponent(t, "kube-apiserver", syscall.SIGCONT)
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do(t)
			start := time.Now()
			// Drift correction, not a probe, shows that the operator works again.
			g.Eventually(func() error {
				_, err := tryKubectl("", "-n", ns, "label", "deployment", "web", "apps.holdfast.dev/owner-kind=nobody", "--overwrite")
				return err
			}, "30s", "100ms").Should(Succeed())
			g.Eventually(func() string {
				out, _ := tryKubectl("", "-n", ns, "get", "deployment", "web", "-o", `jsonpath={.metadata.labels.apps\.holdfast\.dev/owner-kind}`)
				return out
			}, "40s", "100ms").Should(Equal("AppService"))
			took := time.Since(start)
			t.Logf("reconciling again after %.1f s", took.Seconds())
			g.Expect(took).To(BeNumerically("<", 30*time.Second))
		})
	}
	g.Expect(pods()).To(Equal(before), "pods of the application were replaced or restarted")
	waitReady(t, ns, "web")
}

// sameFile compares a file that a process sees with a file of the test.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// signalComponent sends a signal to a component of the test cluster.
func signalComponent(t *testing.T, component string, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(clusterProcess(t, component), sig); err != nil {
		t.Fatal(err)
	}
}

// clusterProcess returns the PID of a component of the test cluster, identified by its data directory.
func clusterProcess(t *testing.T, component string) int {
	t.Helper()
	if clusterDir == "" {
		t.Skip("needs a cluster started by the suite")
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		line, err := os.ReadFile(file)
		program, _, _ := strings.Cut(string(line), "\x00")
		if err != nil || filepath.Base(program) != component || !sameFile(dir+"/root/run/holdfast/cluster.json", clusterDir+"/cluster.json") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("no %s process of cluster %s found", component, clusterDir)
	return 0
}

// outageDuration is the time for which the API server is down; shorter without HOLDFAST_LONG.
func outageDuration() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("OUTAGE")); err == nil {
		return d
	}
	return time.Second
}
