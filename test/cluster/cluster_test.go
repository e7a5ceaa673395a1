package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// toolPath is the path of the built command, which the tests run like a user.
var toolPath string

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		os.Exit(m.Run()) // without a cluster, no command is needed
	}
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		panic(err)
	}
	toolPath = filepath.Join(dir, "cluster")
	if out, err := exec.Command("go", "build", "-o", toolPath, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build the tool: %v\n%s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// testCluster is a cluster started by the command.
type testCluster struct {
	dir       string
	level     string
	port      int
	namespace string
}

// newCluster configures a cluster that is removed at the end of the test, even after a failure.
func newCluster(t *testing.T, level string, port int) *testCluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster: make test-e2e runs it")
	}
	if level == "node" && os.Geteuid() != 0 {
		t.Skip("starting a node needs root")
	}
	dir, err := os.MkdirTemp("", "cluster-")
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{dir: filepath.Join(dir, "data"), level: level, port: port, namespace: "default"}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs(t)
		}
		c.down(t)
		_ = os.RemoveAll(dir)
	})
	return c
}

func (c *testCluster) upArgs() []string {
	return []string{"up", "--dir=" + c.dir, "--level=" + c.level, fmt.Sprintf("--port=%d", c.port)}
}

// up starts the cluster and returns the duration.
func (c *testCluster) up(t *testing.T, extra ...string) time.Duration {
	t.Helper()
	start := time.Now()
	out, err := exec.CommandContext(t.Context(), toolPath, append(c.upArgs(), extra...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return time.Since(start)
}

func (c *testCluster) down(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(toolPath, "down", "--dir="+c.dir).CombinedOutput(); err != nil {
		t.Fatalf("down: %v\n%s", err, out)
	}
}

func (c *testCluster) showLogs(t *testing.T) {
	t.Helper()
	logs, _ := filepath.Glob(c.dir + "/log/*.log")
	for _, l := range logs {
		out, _ := exec.Command("tail", "-n", "5", l).CombinedOutput()
		t.Logf("%s:\n%s", l, out)
	}
	if out, err := c.tryKubectl("get", "pods,pvc,events", "--all-namespaces", "--ignore-not-found"); err == nil {
		t.Logf("%s", out)
	}
}

// inNamespace returns the same cluster with a new namespace.
func (c *testCluster) inNamespace(t *testing.T, namespace string) *testCluster {
	t.Helper()
	c.kubectl(t, "create", "namespace", namespace)
	scoped := *c
	scoped.namespace = namespace
	return &scoped
}

func (c *testCluster) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	kubectl := filepath.Join("..", "..", "bin", "k8s", "kubectl")
	return exec.CommandContext(ctx, kubectl, append([]string{
		"--kubeconfig=" + c.dir + "/kubeconfig", "--namespace=" + c.namespace,
	}, args...)...)
}

func (c *testCluster) tryKubectl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := c.kubectlCommand(ctx, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// kubectl runs a command that must succeed and returns its output.
func (c *testCluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.tryKubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *testCluster) apply(t *testing.T, manifest string) {
	t.Helper()
	cmd := c.kubectlCommand(t.Context(), "apply", "--filename=-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
}

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(content))
}

// eventually retries until check succeeds.
func eventually(t *testing.T, timeout time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", timeout, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// waitForOutput waits until a kubectl command prints want.
func (c *testCluster) waitForOutput(t *testing.T, timeout time.Duration, want string, args ...string) {
	t.Helper()
	eventually(t, timeout, func() error {
		out, err := c.tryKubectl(args...)
		if err != nil {
			return err
		}
		if !strings.Contains(out, want) {
			return fmt.Errorf("kubectl %s: got %q, want %q", strings.Join(args, " "), out, want)
		}
		return nil
	})
}
