package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDownCleansUpAfterCrash kills the command at different times during up, and the processes of a running cluster. The
// next down must remove everything, and up must work again.
func TestDownCleansUpAfterCrash(t *testing.T) {
	c := newCluster(t, "node", 26453)
	before := machineState(t)
	for _, after := range []time.Duration{50 * time.Millisecond, time.Second, 4 * time.Second, 7 * time.Second} {
		up := exec.Command(toolPath, c.upArgs()...)
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after) // offset of the crash
		if err := up.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = up.Wait()
		c.down(t)
		verifyMachineUnchanged(t, before)
	}

	c.up(t)
	c.apply(t, readTestdata(t, "claim.yaml"))
	c.waitForOutput(t, time.Minute, "Running", "get", "pod", "writer")
	if out, err := exec.Command(toolPath, c.upArgs()...).CombinedOutput(); err == nil || !strings.Contains(string(out), "is already running in "+c.dir) {
		t.Errorf("second up: got %v, want an error with the reason:\n%s", err, out)
	}
	killSupervisor(t, c)
	c.down(t)
	verifyMachineUnchanged(t, before)
	c.down(t) // a missing cluster is not an error

	c.up(t)
	if err := os.RemoveAll(c.dir + "/log"); err != nil { // partially deleted by a user
		t.Fatal(err)
	}
	if err := os.Remove(c.dir + "/kubeconfig"); err != nil {
		t.Fatal(err)
	}
	c.down(t)
	verifyMachineUnchanged(t, before)
}

// killSupervisor kills the supervise process of this cluster.
func killSupervisor(t *testing.T, c *testCluster) {
	t.Helper()
	initPID := commandLines(t, "pgrep", "--full", "init --dir="+c.dir+"$")[0]
	pid, err := strconv.Atoi(commandLines(t, "pgrep", "--parent", initPID, "--full", "supervise")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestTwoControlPlanesSideBySide(t *testing.T) {
	a, b := newCluster(t, "control-plane", 26463), newCluster(t, "control-plane", 26473)
	before := machineState(t)
	for name, c := range map[string]*testCluster{"a": a, "b": b} {
		took := c.up(t, "--audit")
		t.Logf("control plane %s ready after %.1f s", name, took.Seconds())
		if took > 10*time.Second {
			t.Errorf("control plane %s took %s, want at most 10 s", name, took)
		}
	}
	for name, c := range map[string]*testCluster{"a": a, "b": b} {
		c.kubectl(t, "create", "configmap", "who", "--from-literal=name="+name)
	}
	a.waitForOutput(t, time.Second, "a", "get", "configmap", "who", "--output=jsonpath={.data.name}")
	a.down(t)
	b.waitForOutput(t, time.Second, "b", "get", "configmap", "who", "--output=jsonpath={.data.name}")
	if out, err := exec.Command("grep", "--count", `"verb":"create".*"requestObject".*"name":"who"`, b.dir+"/audit.log").Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Errorf("audit entries with the body of the write: got %s, %v, want 1", out, err)
	}
	// A component that exits is restarted.
	etcd, err := strconv.Atoi(commandLines(t, "pgrep", "--full", "etcd.*--data-dir="+b.dir+"/")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(etcd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.waitForOutput(t, 30*time.Second, "b", "get", "configmap", "who", "--output=jsonpath={.data.name}")
	b.down(t)
	verifyMachineUnchanged(t, before)
}

// TestUpFailsOnTakenPort checks that the error names the port and that nothing is left running.
func TestUpFailsOnTakenPort(t *testing.T) {
	a, b := newCluster(t, "control-plane", 26483), newCluster(t, "node", 26483)
	a.up(t)
	out, err := exec.Command(toolPath, b.upArgs()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprint(b.port)) {
		t.Errorf("up on a port in use: %v\n%s", err, out)
	}
	a.waitForOutput(t, time.Second, "ok", "get", "--raw=/readyz")
}
