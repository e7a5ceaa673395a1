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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// TestSplitBrain stops the leader in the middle of a write until another has taken over and
// finished its work. Then the write arrives, and the leader that was goes on as if nothing
// had happened, until it notices. Nothing fences it off but what its writes carry.
func TestSplitBrain(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	if !long() {
		t.Skip("a lease takes 10 s to run out, in each of 20 runs: make faults runs it")
	}
	t.Parallel()
	start := time.Now()
	const runs, spare, abreast = 20, 5, 5
	g := newGround(t, operator.Build(t, true))
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{}
	r.learn(t, g, 2, scenario)
	chance := rand.New(rand.NewPCG(*seed, 2))
	var plans []plan
	for i := range runs + spare {
		s := scenario[1+i%8] // from the stack's installation to the job that runs again
		var own []string     // not events: nobody waits for them
		for _, w := range writes[s.name] {
			if !strings.Contains(w, "events") {
				own = append(own, w)
			}
		}
		plans = append(plans, plan{"split", s.name, []string{draw(chance, own)}})
	}
	var failed, played, slowest atomic.Int64
	queue := make(chan plan, len(plans))
	for _, p := range plans {
		queue <- p
	}
	close(queue)
	together(t, abreast, func(t *testing.T, _ int) {
		for p := range queue {
			if played.Load() >= runs {
				continue // a spare one
			}
			t.Run(p.String(), func(t *testing.T) {
				ended, ok := split(t, g, r, p)
				slowest.Store(max(slowest.Load(), int64(ended)))
				if ok { // not every run makes the write it was to be stopped at
					played.Add(1)
				}
				if t.Failed() {
					failed.Add(1)
				}
			})
		}
	})
	if played.Load() < runs {
		t.Errorf("%d of %d runs stopped a leader", played.Load(), runs)
	}
	report.Since(t, start, report.Row{Test: "24 split brain", Generated: len(plans), Run: int(played.Load()), Failed: int(failed.Load()), Seed: *seed,
		Seen: fmt.Sprintf("the old leader ended at most %s after it went on", time.Duration(slowest.Load()).Round(time.Millisecond))})
}

// split plays one case, and says how long the old leader lived after it went on.
func split(t *testing.T, g *ground, r *reference, p plan) (lived time.Duration, struck bool) {
	w := newWorldWith(t, g, operator.Options{LeaderElection: true})
	first := w.leader(t, "")
	for _, s := range scenario {
		if s.name != p.step {
			if _, err := w.play(t.Context(), s, trouble{}); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			continue
		}
		w.second(t)
		frozen, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		m, err := w.play(t.Context(), s, trouble{
			begin: func() {
				w.arm(func(write proxy.Write) *proxy.Fault {
					var f *proxy.Fault
					if write.String() == p.args[0] {
						once.Do(func() { f = &proxy.Fault{Before: func() { w.freeze(frozen, goOn) }} })
					}
					return f
				})
			},
			meanwhile: func(ctx context.Context) error {
				select {
				case <-frozen:
					struck = true
				case <-time.After(10 * time.Second):
					return nil
				}
				w.leader(t, first)
				if err := w.settle(ctx, s); err != nil {
					return fmt.Errorf("the new leader: %w", err)
				}
				lived = w.thaw(t, goOn)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := r.compare(s.name, m); len(diff) > 0 {
			t.Errorf("divergent:\n  %s", strings.Join(diff, "\n  "))
		}
		return lived, struck
	}
	return lived, struck
}

// freeze stops the operator, and keeps its write until it may go on.
func (w *world) freeze(frozen chan<- struct{}, goOn <-chan struct{}) {
	_ = w.operator.Signal(syscall.SIGSTOP) // one that does not run is seen not to lead
	close(frozen)
	<-goOn
}

// thaw lets the operator and its write go on, and waits until it has noticed that it leads
// no more.
func (w *world) thaw(t *testing.T, goOn chan<- struct{}) time.Duration {
	gone, start := w.operator.Exited(), time.Now()
	close(goOn)
	_ = w.operator.Signal(syscall.SIGCONT) // one that does not run has ended
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the old leader has not noticed that it leads no more")
	}
	return time.Since(start)
}

// second starts another operator, which waits for its turn.
func (w *world) second(t *testing.T) {
	t.Helper()
	cfg, err := w.ground.plane.ConfigFor(w.account)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	p.Arm(w.note)
	operator.Start(t, w.ground.plane, w.options(p, operator.Options{LeaderElection: true}))
}

// leader waits until somebody leads who is not the one before.
func (w *world) leader(t *testing.T, before string) string {
	t.Helper()
	for range 600 {
		lease := &coordinationv1.Lease{ObjectMeta: w.named("holdfast-operator")}
		err := w.Get(t.Context(), client.ObjectKeyFromObject(lease), lease)
		if holder := lease.Spec.HolderIdentity; err == nil && holder != nil && *holder != "" && *holder != before {
			return *holder
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("nobody leads")
	return ""
}
