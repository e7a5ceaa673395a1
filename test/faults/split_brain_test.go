package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// TestSplitBrain pauses the leader during a write until another leader has taken over and finished its work. Then the
// write is sent, and the old leader continues until it notices the lost lease. Only write preconditions fence it off.
func TestSplitBrain(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	if !isLongRun() {
		t.Skip("a lease takes 10 s to run out, in each of 20 runs: make faults runs it")
	}
	t.Parallel()
	start := time.Now()
	const runs, spare, parallelism = 20, 5, 5
	g := newTestCluster(t, operator.Build(t, true))
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{}
	r.learn(t, g, 2, scenario)
	rng := rand.New(rand.NewPCG(*seed, 2))
	var plans []plan
	for i := range runs + spare {
		s := scenario[1+i%8]    // from the installation of the stack to the rerun of the job
		var candidates []string // without events: nothing waits for them
		for _, w := range writes[s.name] {
			if !strings.Contains(w, "events") {
				candidates = append(candidates, w)
			}
		}
		plans = append(plans, plan{"split", s.name, []string{pick(rng, candidates)}})
	}
	var failed, completed, slowest atomic.Int64
	queue := make(chan plan, len(plans))
	for _, p := range plans {
		queue <- p
	}
	close(queue)
	runParallel(t, parallelism, func(t *testing.T, _ int) {
		for p := range queue {
			if completed.Load() >= runs {
				continue // not needed
			}
			t.Run(p.String(), func(t *testing.T) {
				exitDelay, ok := runSplitBrain(t, g, r, p)
				slowest.Store(max(slowest.Load(), int64(exitDelay)))
				if ok { // not every run makes the selected write
					completed.Add(1)
				}
				if t.Failed() {
					failed.Add(1)
				}
			})
		}
	})
	if completed.Load() < runs {
		t.Errorf("%d of %d runs paused a leader", completed.Load(), runs)
	}
	report.WriteTimed(t, start, report.Row{Test: "24 split brain", Generated: len(plans), Run: int(completed.Load()), Failed: int(failed.Load()), Seed: *seed,
		Measured: fmt.Sprintf("the old leader exited at most %s after it continued", time.Duration(slowest.Load()).Round(time.Millisecond))})
}

// runSplitBrain runs one case and returns how long the old leader ran after it continued.
func runSplitBrain(t *testing.T, g *testCluster, r *reference, p plan) (exitDelay time.Duration, paused bool) {
	w := newWorldWithOptions(t, g, operator.Options{LeaderElection: true})
	first := w.waitForLeader(t, "")
	for _, s := range scenario {
		if s.name != p.step {
			if _, err := w.runStep(t.Context(), s, faultHooks{}); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			continue
		}
		w.startStandby(t)
		pausedCh, resumeCh := make(chan struct{}), make(chan struct{})
		var once sync.Once
		m, err := w.runStep(t.Context(), s, faultHooks{
			beforeStep: func() {
				w.injectFaults(func(write proxy.Write) *proxy.Fault {
					var f *proxy.Fault
					if write.String() == p.args[0] {
						once.Do(func() { f = &proxy.Fault{BeforeForward: func() { w.pauseOperator(pausedCh, resumeCh) }} })
					}
					return f
				})
			},
			duringStep: func(ctx context.Context) error {
				select {
				case <-pausedCh:
					paused = true
				case <-time.After(10 * time.Second):
					return nil
				}
				w.waitForLeader(t, first)
				if err := w.waitSettled(ctx, s); err != nil {
					return fmt.Errorf("wait for the new leader: %w", err)
				}
				exitDelay = w.resumeOperator(t, resumeCh)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := r.compare(s.name, m); len(diff) > 0 {
			t.Errorf("divergent:\n  %s", strings.Join(diff, "\n  "))
		}
		return exitDelay, paused
	}
	return exitDelay, paused
}

// pauseOperator pauses the operator and holds its write until resumed.
func (w *world) pauseOperator(pausedCh chan<- struct{}, resumeCh <-chan struct{}) {
	_ = w.operator.Signal(syscall.SIGSTOP) // fails only if it has already exited
	close(pausedCh)
	<-resumeCh
}

// resumeOperator releases the operator and its write, and waits until it exits because it lost the lease.
func (w *world) resumeOperator(t *testing.T, resumeCh chan<- struct{}) time.Duration {
	exited, start := w.operator.Exited(), time.Now()
	close(resumeCh)
	_ = w.operator.Signal(syscall.SIGCONT) // fails only if it has already exited
	select {
	case <-exited:
	case <-time.After(10 * time.Second):
		t.Error("the old leader did not exit after it lost the lease")
	}
	return time.Since(start)
}

// startStandby starts another operator, which waits for the lease.
func (w *world) startStandby(t *testing.T) {
	t.Helper()
	cfg, err := w.cluster.plane.ConfigFor(w.operatorUser)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	p.InjectFaults(w.recordWrite)
	operator.Start(t, w.cluster.plane, w.options(p, operator.Options{LeaderElection: true}))
}

// waitForLeader waits for a leader other than the previous one.
func (w *world) waitForLeader(t *testing.T, previous string) string {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: w.objectMeta("holdfast-operator")}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := w.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		return err == nil && holder != "" && holder != previous, nil
	})
	if err != nil {
		t.Fatal("no leader")
	}
	return *lease.Spec.HolderIdentity
}
