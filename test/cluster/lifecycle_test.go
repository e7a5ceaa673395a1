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

// TestDownCleansUpAfterCrash kills the tool at several moments of up, and the cluster's
// own processes while it runs. The next down leaves nothing, and up works again.
func TestDownCleansUpAfterCrash(t *testing.T) {
	c := newCluster(t, "node", 26453)
	before := machineState(t)
	for _, after := range []time.Duration{50 * time.Millisecond, time.Second, 4 * time.Second, 7 * time.Second} {
		up := exec.Command(toolPath, c.upArgs()...)
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after) // the moment is the point
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
	if out, err := exec.Command(toolPath, c.upArgs()...).CombinedOutput(); err == nil || !strings.Contains(string(out), "runs in "+c.dir+" already") {
		t.Errorf("a second up must refuse and say why, got %v:\n%s", err, out)
	}
	killSupervisor(t, c)
	c.down(t)
	verifyMachineUnchanged(t, before)
	c.down(t) // nothing there is fine

	c.up(t)
	if err := os.RemoveAll(c.dir + "/log"); err != nil { // whatever somebody deleted
		t.Fatal(err)
	}
	if err := os.Remove(c.dir + "/kubeconfig"); err != nil {
		t.Fatal(err)
	}
	c.down(t)
	verifyMachineUnchanged(t, before)
}

// killSupervisor kills the process below the init of this cluster.
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

// TestTwoControlPlanesSideBySide runs two side by side.
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
		t.Errorf("the audit log must have the body of the write once, got %s, %v", out, err)
	}
	// A part that dies comes back, as on a real machine.
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

// TestUpFailsOnTakenPort names the port and does not leave half a cluster.
func TestUpFailsOnTakenPort(t *testing.T) {
	a, b := newCluster(t, "control-plane", 26483), newCluster(t, "node", 26483)
	a.up(t)
	out, err := exec.Command(toolPath, b.upArgs()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprint(b.port)) {
		t.Errorf("up on a taken port: %v\n%s", err, out)
	}
	a.waitForOutput(t, time.Second, "ok", "get", "--raw=/readyz")
}
