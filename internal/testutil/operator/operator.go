// Package operator runs the operator for a test as in production: as a separate process with its own user and exactly
// the permissions of an installation. It can be killed, and the audit log identifies its requests.
//
// Safety rule: it is built with the race detector unless a test measures performance, and a race or a panic in its log
// fails the test.
package operator

import (
	"bytes"
	"context"
	"errors"
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
	// Namespace is the namespace of an installed operator.
	Namespace = "holdfast-system"
	// User is the user name of the operator.
	User = "system:serviceaccount:holdfast-system:holdfast-operator"

	// prebuiltEnv is the environment variable with the directory of race/operator and fast/operator, built from this
	// checkout: `make test-api` builds them once for all packages.
	prebuiltEnv = "HOLDFAST_PREBUILT"

	readyTimeout = 60 * time.Second
)

// Options configure an operator.
type Options struct {
	// Args and Env are added to the flags and the environment.
	Args, Env []string
	// Config connects to the API server; nil means directly.
	Config *rest.Config
	// NoRace disables the race detector.
	NoRace bool
	// Binary is another operator binary; "" builds it from this checkout.
	Binary string
	// LeaderElection enables leader election.
	LeaderElection bool
}

// Operator is a running operator.
type Operator struct {
	*controlplane.Process
	// HealthAddress is the address of its probes.
	HealthAddress string
}

// Start starts the operator and waits until it is ready. It stops with the test.
func Start(t testing.TB, plane *controlplane.Plane, o Options) *Operator {
	t.Helper()
	op := New(t, plane, o)
	if err := op.StartAndWait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return op
}

// New prepares an operator without starting it.
func New(t testing.TB, plane *controlplane.Plane, o Options) *Operator {
	t.Helper()
	op, err := Prepare(t.Context(), plane, t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.StopAndCheckLog(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("end of the operator log:\n%s", op.LogTail())
		}
	})
	return op
}

// Prepare is [New] for an operator that outlives a test: its files are in dir, and the caller stops it.
func Prepare(ctx context.Context, plane *controlplane.Plane, dir string, o Options) (*Operator, error) {
	if o.Binary == "" {
		var err error
		if o.Binary, err = build(ctx, o.NoRace); err != nil {
			return nil, err
		}
	}
	cfg := o.Config
	if cfg == nil {
		var err error
		if cfg, err = plane.ConfigFor(User); err != nil {
			return nil, err
		}
	}
	kubeconfig := filepath.Join(dir, "operator.kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(cfg), kubeconfig); err != nil {
		return nil, err
	}
	healthAddress, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return &Operator{HealthAddress: healthAddress, Process: &controlplane.Process{
		Name: "operator", Path: o.Binary, Log: filepath.Join(dir, "operator.log"),
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--health-address=" + healthAddress, "--metrics-address=0",
			fmt.Sprintf("--leader-elect=%t", o.LeaderElection), "--leader-election-namespace=" + Namespace,
		}, o.Args...),
		// A race exits the process, so that a test cannot miss it.
		Env: append([]string{"GORACE=halt_on_error=1"}, o.Env...),
	}}, nil
}

// StartAndWait starts the operator and waits until it is ready.
func (o *Operator) StartAndWait(ctx context.Context) error {
	if err := o.Start(); err != nil {
		return err
	}
	return o.WaitReady(ctx)
}

// StopAndCheckLog stops the operator and returns an error for a race or a panic in its log.
func (o *Operator) StopAndCheckLog() error {
	var errs []error
	if err := o.Stop(10 * time.Second); err != nil {
		errs = append(errs, fmt.Errorf("stop operator: %w", err))
	}
	log, _ := os.ReadFile(o.Log) // does not exist if it was never started
	for _, marker := range []string{"WARNING: DATA RACE", "panic:", "Observed a panic"} {
		if bytes.Contains(log, []byte(marker)) {
			errs = append(errs, fmt.Errorf("operator: %s", marker))
		}
	}
	return errors.Join(errs...)
}

// LogTail returns the last lines of the operator log.
func (o *Operator) LogTail() []byte {
	log, _ := os.ReadFile(o.Log) // does not exist if it was never started
	lines := bytes.Split(log, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-60):], []byte("\n"))
}

// WaitReady waits until the operator is ready.
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

// Build builds the operator and returns its path.
func Build(t testing.TB, noRace bool) string {
	t.Helper()
	binary, err := build(t.Context(), noRace)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// build builds the operator if it is not up to date. Packages are tested in parallel: one builds, the others wait.
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

// RepoRoot returns the root of the repository.
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
