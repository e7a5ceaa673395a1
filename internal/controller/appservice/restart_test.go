package appservice_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// interrupted are stories that an operator dies in: what happens before, and what is under
// way when it dies.
var interrupted = map[string]struct{ before, during func(*world) }{
	"create": {
		before: func(*world) {},
		during: func(w *world) { w.create(usual) },
	},
	"update": {
		before: func(w *world) {
			w.create(usual)
			w.becomesReady()
		},
		during: func(w *world) {
			w.change(func(s *appsapi.AppServiceSpec) {
				s.Image, s.Ports, s.Replicas = "shop/web:2", nil, new(int32(1))
			})
		},
	},
	"adopt": {
		before: func(w *world) {
			put(w, w.deploymentOf(theirs), letIn)
			put(w, w.serviceOf(theirService), letIn)
		},
		during: func(w *world) { w.create(takesOver) },
	},
}

// TestAlone is what needs an operator of its own: to weigh its memory, to kill it.
func TestAlone(t *testing.T) {
	s := newStage(t)
	t.Run("fights", s.testFights)
	t.Run("restarts", s.testRestarts)
	s.NeedsNoMore(t)
}

// testRestarts kills the operator at some moments of each story: it ends as if nothing had
// happened, and the next operator does not write what is right already.
func (s *stage) testRestarts(t *testing.T) {
	for name, story := range interrupted {
		t.Run(name, func(t *testing.T) {
			undisturbed := newWorld(t, s)
			story.before(undisturbed)
			story.during(undisturbed)
			undisturbed.becomesReady()
			want := undisturbed.end()
			// The writes of a story are done after some 50 ms; the rollout goes on.
			moments := []time.Duration{20}
			if long {
				moments = []time.Duration{5, 20, 60}
			}
			for _, after := range moments {
				w := newWorld(t, s)
				story.before(w)
				story.during(w)
				time.Sleep(after * time.Millisecond)
				w.Expect(s.Operator.Kill()).To(Succeed())
				w.Expect(s.Operator.Start()).To(Succeed())
				w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
				w.becomesReady()
				w.Expect(w.end()).To(Equal(want), "killed after %d ms", after)
				w.settles()
			}
		})
	}
}

// end is how a story ended, whatever is the same in every namespace.
func (w *world) end() []string {
	w.Helper()
	children := []client.Object{w.deployment()}
	if service := w.service(); service != nil {
		children = append(children, service)
	}
	var end []string
	for _, child := range children {
		w.Expect(metav1.IsControlledBy(child, w.app())).To(BeTrue())
		end = append(end, normal(w, child))
	}
	return end
}
