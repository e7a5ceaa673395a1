// Package operator runs the operator for a test as it runs in production: a process of
// its own, under its own user, with exactly the rights that an installation grants. So
// it can be killed, and the audit log tells its requests from everybody else's.
//
// Safety rule: it is built with the race detector unless a test measures speed, and a
// race or a panic in its log fails the test.
package operator

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

const (
	// Namespace is where an installation puts the operator.
	Namespace = "holdfast-system"
	// User is whom the API server sees.
	User = "system:serviceaccount:holdfast-system:holdfast-operator"

	// prebuiltEnv names the directory that holds race/operator and fast/operator, built from this
	// checkout: `make test-api` builds them once for all packages.
	prebuiltEnv = "HOLDFAST_PREBUILT"

	readyTimeout = 60 * time.Second
)

// Options of a run.
type Options struct {
	// Args are added to the flags, and Env to the environment.
	Args, Env []string
	// Config is where the API server is reached; nil means directly.
	Config *rest.Config
	// NoRace leaves the race detector out.
	NoRace bool
	// Binary is another build of the operator; "" builds it from this checkout.
	Binary string
	// LeaderElection is off unless a test is about it.
	LeaderElection bool
}

// Operator is a running operator.
type Operator struct {
	*controlplane.Process
	// HealthAddress is the address of its probes.
	HealthAddress string
}

// Start starts the operator and returns when it is ready. It ends with the test.
func Start(t testing.TB, plane *controlplane.Plane, o Options) *Operator {
	t.Helper()
	op := New(t, plane, o)
	if err := op.Start(); err != nil {
		t.Fatal(err)
	}
	if err := op.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return op
}

// New prepares an operator that is started by the test itself.
func New(t testing.TB, plane *controlplane.Plane, o Options) *Operator {
	t.Helper()
	if o.Binary == "" {
		o.Binary = Build(t, o.NoRace)
	}
	cfg := o.Config
	if cfg == nil {
		var err error
		if cfg, err = plane.ConfigFor(User); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(cfg), kubeconfig); err != nil {
		t.Fatal(err)
	}
	healthAddress, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	op := &Operator{HealthAddress: healthAddress, Process: &controlplane.Process{
		Name: "operator", Path: o.Binary, Log: filepath.Join(dir, "operator.log"),
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--health-address=" + healthAddress, "--metrics-address=0",
			fmt.Sprintf("--leader-elect=%t", o.LeaderElection), "--leader-election-namespace=" + Namespace,
		}, o.Args...),
		// A race ends the process, so that a test cannot miss it.
		Env: append([]string{"GORACE=halt_on_error=1"}, o.Env...),
	}}
	t.Cleanup(func() { op.stopAndCheckLog(t) })
	return op
}

func (o *Operator) stopAndCheckLog(t testing.TB) {
	if err := o.Stop(10 * time.Second); err != nil {
		t.Errorf("stop operator: %v", err)
	}
	log, err := os.ReadFile(o.Log)
	if err != nil {
		return // never started
	}
	for _, marker := range []string{"WARNING: DATA RACE", "panic:", "Observed a panic"} {
		if bytes.Contains(log, []byte(marker)) {
			t.Errorf("operator: %s", marker)
		}
	}
	if t.Failed() {
		lines := bytes.Split(log, []byte("\n"))
		t.Logf("the end of the operator's log:\n%s", bytes.Join(lines[max(0, len(lines)-60):], []byte("\n")))
	}
}

// WaitReady waits until the operator says that it is ready.
func (o *Operator) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if o.isReady(ctx) {
			return nil
		}
		select {
		case <-o.Exited():
			return o.Failure()
		case <-ctx.Done():
			return fmt.Errorf("operator is not ready after %s, see %s", readyTimeout, o.Log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (o *Operator) isReady(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.HealthAddress+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// Build makes the program and returns its path.
func Build(t testing.TB, noRace bool) string {
	t.Helper()
	binary, err := build(t.Context(), noRace)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// build makes the program, or finds that it is up to date. Packages are tested at the
// same time: one builds, the others wait.
func build(ctx context.Context, noRace bool) (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	if built := os.Getenv(prebuiltEnv); built != "" {
		return filepath.Join(built, map[bool]string{true: "fast", false: "race"}[noRace], "operator"), nil
	}
	dir, args, cgo := filepath.Join(root, "bin", "race"), []string{"build", "-race"}, "CGO_ENABLED=1"
	if noRace {
		dir, args, cgo = filepath.Join(root, "bin", "fast"), []string{"build"}, "CGO_ENABLED=0"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	binary := filepath.Join(dir, "operator")
	cmd := exec.CommandContext(ctx, "go", append(args, "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/operator")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build operator: %w\n%s", err, out)
	}
	return binary, nil
}

// RepoRoot is the top of the repository that the test stands in.
func RepoRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
