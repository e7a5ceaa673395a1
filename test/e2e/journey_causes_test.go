package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	api "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

var captureDir = flag.String("capture", "", "write the observed objects of each fault to this directory")

const (
	// maxDetectionTime is the time within which the plugin must report a visible fault.
	maxDetectionTime = 5 * time.Second
	// parallelFaults is the number of concurrent faults: the node has two cores.
	parallelFaults = 8
)

// fault is a fault of an application called "app".
type fault struct {
	// manifest is applied; %s is the namespace.
	manifest string
	// trigger runs once the application is ready.
	trigger func(*faultTest)
	code    string
	// informational faults do not keep an application from being ready.
	informational bool
	// isVisible reports whether the fault is visible in the cluster; nil means as soon as the cause is reported.
	isVisible func(*faultTest) bool
	// grace is the time for which the cause is suppressed on purpose.
	grace time.Duration
	// exclusive faults disturb other tests.
	exclusive bool
	// notInStatus is set for faults that the operator has no permission to see.
	notInStatus bool
	cleanup     func(*faultTest)
}

// slow reports whether a fault takes too long for every test run.
func (f fault) slow() bool { return f.grace > 5*time.Second && os.Getenv("HOLDFAST_LONG") == "" }

// faultTest is the namespace of a fault.
type faultTest struct {
	*testing.T
	api.Client
	ns string
}

// TestCauses injects faults on a real node, each in its own namespace, and expects their causes in the plugin output and
// in the status. HOLDFAST_LONG includes slow faults and checks persistent faults for longer.
func TestCauses(t *testing.T) {
	requireInstalled(t)
	c := newClient(t)
	requireRegistry(t)
	var detected sync.Map
	// Goroutines instead of parallel tests: the number of parallel tests is limited by the cores, but most of the time
	// is spent waiting.
	slots := make(chan struct{}, parallelFaults)
	var group sync.WaitGroup
	for name, f := range faults {
		if f.exclusive || f.slow() {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			release := sync.OnceFunc(func() { <-slots })
			defer release()
			t.Run(name, func(t *testing.T) {
				s := &faultTest{T: t, Client: c}
				detected.Store(f.code, s.run(name, f))
				if slices.Contains(flappingFaults, name) {
					release()
					s.verifyStatusIsStable()
				}
			})
		})
	}
	group.Wait()
	for name, f := range faults {
		if f.exclusive && !f.slow() {
			t.Run(name, func(t *testing.T) { detected.Store(f.code, (&faultTest{T: t, Client: c}).run(name, f)) })
		}
	}
	codes, worst := 0, time.Duration(0)
	detected.Range(func(_, took any) bool {
		codes++
		worst = max(worst, took.(time.Duration))
		return true
	})
	t.Logf("%d causes reported, the slowest %.1f s after the fault became visible", codes, worst.Seconds())
}

func newClient(t *testing.T) api.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := cli.NewClient(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run injects a fault, waits for its cause and returns the detection time.
func (s *faultTest) run(name string, f fault) time.Duration {
	s.ns = "cause-" + strings.ToLower(name)
	ctx := s.Context()
	if err := s.Create(ctx, &corev1.Namespace{ObjectMeta: objectMeta(s.ns)}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if f.cleanup != nil {
			f.cleanup(s)
		}
		_ = s.Delete(context.WithoutCancel(ctx), &corev1.Namespace{ObjectMeta: objectMeta(s.ns)})
	})
	if f.manifest != "" {
		apply(s.T, s.ns, strings.ReplaceAll(f.manifest, "%s", s.ns))
	}
	if f.trigger != nil {
		f.trigger(s)
	}
	visible := time.Now()
	if f.isVisible != nil {
		s.waitUntil(60*time.Second, "the fault is visible", func() bool { return f.isVisible(s) })
		visible = time.Now()
	}
	s.waitForCause(f, visible)
	took := time.Since(visible)
	if took > maxDetectionTime+f.grace {
		s.Errorf("%s was reported after %.1f s, want at most %s", f.code, took.Seconds(), maxDetectionTime+f.grace)
	}
	if !f.informational && !f.notInStatus {
		s.waitForStatusCause(f)
	}
	if *captureDir != "" {
		s.captureFixture(f)
	}
	return max(0, took-f.grace)
}

// waitForCause waits until the plugin reports the cause.
func (s *faultTest) waitForCause(f fault, visible time.Time) {
	s.waitUntil(time.Until(visible)+maxDetectionTime+f.grace+20*time.Second, "the plugin reports "+f.code, func() bool {
		return slices.ContainsFunc(s.runWhy().Causes, func(c wire.Cause) bool { return c.Code == f.code })
	})
}

// waitForStatusCause waits until the status reports the same cause.
func (s *faultTest) waitForStatusCause(f fault) {
	codes := ""
	s.waitUntil(40*time.Second, "status.causes has "+f.code, func() bool {
		app, err := cli.FindApplication(s.Context(), s, s.ns, []string{"app"})
		if err != nil {
			return false
		}
		codes = ""
		for _, c := range app.ApplicationStatus().Causes {
			codes += c.Code + " "
		}
		return strings.Contains(codes, f.code)
	})
}

func (s *faultTest) waitUntil(limit time.Duration, condition string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			out, _ := tryKubectl("", "-n", s.ns, "get", "pods,events,appservices,appstacks,cloudmanagers", "-o", "wide")
			plugin, _ := exec.Command(filepath.Join(root, "bin", "kubectl-holdfast"), "why", "app", "-n", s.ns, "--kubeconfig", kubeconfig, "--all").CombinedOutput()
			s.Fatalf("waited %s until %s:\n%s\n%s", limit, condition, plugin, out)
		}
	}
}

// runWhy runs kubectl holdfast why.
func (s *faultTest) runWhy() collect.Document {
	out, err := exec.CommandContext(s.Context(), filepath.Join(root, "bin", "kubectl-holdfast"), "why", "app", "-n", s.ns, "-o", "json", "--kubeconfig", kubeconfig).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != cli.ExitNotReady) {
		if exit != nil {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		s.Logf("why: %v", err)
		return collect.Document{}
	}
	var a collect.Document
	if err := json.Unmarshal(out, &a); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	return a
}
