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

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
)

var capture = flag.String("capture", "", "write what was seen of each fault into this folder")

const (
	// toldWithin is how long after a fault can be seen the plugin must name it.
	toldWithin = 5 * time.Second
	// abreast is how many faults are provoked at a time: the node has two cores.
	abreast = 8
)

// fault is something that goes wrong with an application called "app".
type fault struct {
	// manifest is applied; %s is the namespace.
	manifest string
	// then is done once the application is ready.
	then func(*scene)
	code string
	// notice is for what does not keep an application from being ready.
	notice bool
	// sees says whether the fault can be seen; nil means that the code alone tells.
	sees func(*scene) bool
	// grace is for how long it is kept quiet about on purpose.
	grace time.Duration
	// alone is for faults that others would suffer from.
	alone bool
	// blind is for faults that the operator may not see.
	blind bool
	clean func(*scene)
}

// slow says whether a fault takes too long to show for every run of the tests.
func (f fault) slow() bool { return f.grace > 5*time.Second && os.Getenv("HOLDFAST_LONG") == "" }

// scene is where a fault happens.
type scene struct {
	*testing.T
	api.Client
	ns string
}

// TestCauses provokes faults on a real node, each in a namespace of its own, and reads their
// names from the plugin and from the object. HOLDFAST_LONG does not leave out those that
// take more than a moment to show, and looks longer at those that go on.
func TestCauses(t *testing.T) {
	installed(t)
	c := newClient(t)
	withRegistry(t)
	var told sync.Map
	// Goroutines, not parallel tests: of these there are as many at a time as there are cores,
	// and most of the time a fault is waited for.
	slots := make(chan struct{}, abreast)
	var group sync.WaitGroup
	for name, f := range faults {
		if f.alone || f.slow() {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			free := sync.OnceFunc(func() { <-slots })
			defer free()
			t.Run(name, func(t *testing.T) {
				s := &scene{T: t, Client: c}
				told.Store(f.code, s.play(name, f))
				if slices.Contains(unsteady, name) {
					free()
					s.steady()
				}
			})
		})
	}
	group.Wait()
	for name, f := range faults {
		if f.alone && !f.slow() {
			t.Run(name, func(t *testing.T) { told.Store(f.code, (&scene{T: t, Client: c}).play(name, f)) })
		}
	}
	codes, worst := 0, time.Duration(0)
	told.Range(func(_, took any) bool {
		codes++
		worst = max(worst, took.(time.Duration))
		return true
	})
	t.Logf("%d causes named live, the slowest %.1f s after it could be seen", codes, worst.Seconds())
}

// newClient reaches the cluster.
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

// play provokes a fault and waits for its name. It returns how long that took.
func (s *scene) play(name string, f fault) time.Duration {
	s.ns = "cause-" + strings.ToLower(name)
	ctx := s.Context()
	if err := s.Create(ctx, &corev1.Namespace{ObjectMeta: named(s.ns)}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if f.clean != nil {
			f.clean(s)
		}
		_ = s.Delete(context.WithoutCancel(ctx), &corev1.Namespace{ObjectMeta: named(s.ns)})
	})
	if f.manifest != "" {
		apply(s.T, s.ns, strings.ReplaceAll(f.manifest, "%s", s.ns))
	}
	if f.then != nil {
		f.then(s)
	}
	visible := time.Now()
	if f.sees != nil {
		s.until(60*time.Second, "the fault can be seen", func() bool { return f.sees(s) })
		visible = time.Now()
	}
	s.named(f, visible)
	took := time.Since(visible)
	if took > toldWithin+f.grace {
		s.Errorf("%s was named after %.1f s, want %s", f.code, took.Seconds(), toldWithin+f.grace)
	}
	if !f.notice && !f.blind {
		s.inCondition(f)
	}
	if *capture != "" {
		s.capture(f)
	}
	return max(0, took-f.grace)
}

// named waits until the plugin names the cause.
func (s *scene) named(f fault, visible time.Time) {
	s.until(time.Until(visible)+toldWithin+f.grace+20*time.Second, "the plugin says "+f.code, func() bool {
		return slices.ContainsFunc(s.why().Causes, func(c answer.Cause) bool { return c.Code == f.code })
	})
}

// inCondition waits until the operator says the same.
func (s *scene) inCondition(f fault) {
	said := ""
	s.until(40*time.Second, "status.causes has "+f.code, func() bool {
		app, err := cli.Find(s.Context(), s, s.ns, []string{"app"})
		if err != nil {
			return false
		}
		said = ""
		for _, c := range app.ApplicationStatus().Causes {
			said += c.Code + " "
		}
		return strings.Contains(said, f.code)
	})
}

func (s *scene) until(limit time.Duration, what string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			out, _ := try("", "-n", s.ns, "get", "pods,events,appservices,appstacks,cloudmanagers", "-o", "wide")
			plugin, _ := exec.Command(filepath.Join(root, "bin", "kubectl-holdfast"), "why", "app", "-n", s.ns, "--kubeconfig", kubeconfig, "--all").CombinedOutput()
			s.Fatalf("waited %s until %s:\n%s\n%s", limit, what, plugin, out)
		}
	}
}

// why asks the plugin, as a user does.
func (s *scene) why() look.Answer {
	out, err := exec.CommandContext(s.Context(), filepath.Join(root, "bin", "kubectl-holdfast"), "why", "app", "-n", s.ns, "-o", "json", "--kubeconfig", kubeconfig).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != cli.ExitNotReady) {
		if exit != nil {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		s.Logf("why: %v", err)
		return look.Answer{}
	}
	var a look.Answer
	if err := json.Unmarshal(out, &a); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	return a
}
