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

// tool is the built program: the tests use it as a developer does.
var tool string

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		os.Exit(m.Run()) // no cluster, no tool
	}
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		panic(err)
	}
	tool = filepath.Join(dir, "cluster")
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build the tool: %v\n%s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// cluster is one started by the tool.
type cluster struct {
	dir       string
	level     string
	port      int
	namespace string
}

// newCluster names a cluster and takes it down at the end, whatever happened.
func newCluster(t *testing.T, level string, port int) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster: make test-e2e runs it")
	}
	if level == "node" && os.Geteuid() != 0 {
		t.Skip("a node needs root")
	}
	dir, err := os.MkdirTemp("", "cluster-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir: filepath.Join(dir, "data"), level: level, port: port, namespace: "default"}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs(t)
		}
		c.down(t)
		_ = os.RemoveAll(dir)
	})
	return c
}

func (c *cluster) upArgs() []string {
	return []string{"up", "--dir=" + c.dir, "--level=" + c.level, fmt.Sprintf("--port=%d", c.port)}
}

// up starts the cluster and returns how long it took.
func (c *cluster) up(t *testing.T, extra ...string) time.Duration {
	t.Helper()
	start := time.Now()
	out, err := exec.CommandContext(t.Context(), tool, append(c.upArgs(), extra...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return time.Since(start)
}

func (c *cluster) down(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(tool, "down", "--dir="+c.dir).CombinedOutput(); err != nil {
		t.Fatalf("down: %v\n%s", err, out)
	}
}

func (c *cluster) showLogs(t *testing.T) {
	t.Helper()
	logs, _ := filepath.Glob(c.dir + "/log/*.log")
	for _, l := range logs {
		out, _ := exec.Command("tail", "-n", "5", l).CombinedOutput()
		t.Logf("%s:\n%s", l, out)
	}
	if out, err := c.try("get", "pods,pvc,events", "--all-namespaces", "--ignore-not-found"); err == nil {
		t.Logf("%s", out)
	}
}

// in returns the same cluster seen from a new namespace.
func (c *cluster) in(t *testing.T, namespace string) *cluster {
	t.Helper()
	c.kubectl(t, "create", "namespace", namespace)
	view := *c
	view.namespace = namespace
	return &view
}

func (c *cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	kubectl := filepath.Join("..", "..", "bin", "k8s", "kubectl")
	return exec.CommandContext(ctx, kubectl, append([]string{
		"--kubeconfig=" + c.dir + "/kubeconfig", "--namespace=" + c.namespace,
	}, args...)...)
}

func (c *cluster) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := c.command(ctx, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// kubectl runs it and returns its output; it must succeed.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	cmd := c.command(t.Context(), "apply", "--filename=-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(content))
}

// eventually asks until there is no error any more.
func eventually(t *testing.T, timeout time.Duration, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", timeout, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// shows waits until a kubectl command prints want.
func (c *cluster) shows(t *testing.T, timeout time.Duration, want string, args ...string) {
	t.Helper()
	eventually(t, timeout, func() error {
		out, err := c.try(args...)
		if err != nil {
			return err
		}
		if !strings.Contains(out, want) {
			return fmt.Errorf("kubectl %s prints %q, want %q", strings.Join(args, " "), out, want)
		}
		return nil
	})
}
