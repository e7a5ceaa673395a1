package appservice_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// restartStories are operations during which the operator is killed, with their preparation.
var restartStories = map[string]struct{ before, during func(*world) }{
	"create": {
		before: func(*world) {},
		during: func(w *world) { w.create(basicSpec) },
	},
	"update": {
		before: func(w *world) {
			w.create(basicSpec)
			w.waitReady()
		},
		during: func(w *world) {
			w.editSpec(func(s *appsapi.AppServiceSpec) {
				s.Image, s.Ports, s.Replicas = "shop/web:2", nil, new(int32(1))
			})
		},
	},
	"adopt": {
		before: func(w *world) {
			createForeign(w, w.decodeDeployment(foreignDeployment), allowAdoption)
			createForeign(w, w.decodeService(foreignService), allowAdoption)
		},
		during: func(w *world) { w.create(adoptingSpec) },
	},
}

// TestWithOwnOperator runs tests that need their own operator to kill it or to measure its memory.
func TestWithOwnOperator(t *testing.T) {
	s := newSuite(t)
	t.Run("fights", s.testDriftContention)
	t.Run("restarts", s.testRestarts)
	s.ExpectNoForbiddenRequests(t)
}

// testRestarts kills the operator at different times of each operation: the result is the same, and the restarted
// operator writes nothing that is already correct.
func (s *suite) testRestarts(t *testing.T) {
	for name, story := range restartStories {
		t.Run(name, func(t *testing.T) {
			reference := newWorld(t, s)
			story.before(reference)
			story.during(reference)
			reference.waitReady()
			want := reference.finalState()
			// The writes of an operation are done after about 50 ms; the rollout continues.
			killDelays := []time.Duration{20}
			if longRun {
				killDelays = []time.Duration{5, 20, 60}
			}
			for _, delay := range killDelays {
				w := newWorld(t, s)
				story.before(w)
				story.during(w)
				time.Sleep(delay * time.Millisecond) // time of the crash
				w.Expect(s.Operator.Kill()).To(Succeed())
				w.Expect(s.Operator.Start()).To(Succeed())
				w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
				w.waitReady()
				w.Expect(w.finalState()).To(Equal(want), "killed after %d ms", delay)
				w.expectSteadyState()
			}
		})
	}
}

// finalState returns the final state without values that differ between namespaces.
func (w *world) finalState() []string {
	w.Helper()
	children := []client.Object{w.deployment()}
	if service := w.service(); service != nil {
		children = append(children, service)
	}
	var states []string
	for _, child := range children {
		w.Expect(metav1.IsControlledBy(child, w.app())).To(BeTrue())
		states = append(states, normalize(w, child))
	}
	return states
}
