package appstack_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

var shared = &harness.Shared{Behavior: behaviorOf}

func TestMain(m *testing.M) { harness.Main(m, shared) }

// behaviors maps image tags to pod behaviors.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"never":   podsim.NeverReady(),
	"slow":    podsim.Slow(time.Second),
	"done":    podsim.Succeeded(),
	"fail":    podsim.Failed(3),
	"crash":   podsim.CrashLoop(3).After(200*time.Millisecond).WithRestarts(1000, 2*time.Second), // ready for a moment after each restart
	"busy":    podsim.Succeeded().After(2 * time.Second),
	"runs":    podsim.Ready(), // never exits, as if it hung
	"works":   podsim.Ready(), // a job that never completes
	"late":    podsim.Slow(6 * time.Second),

	"11.8-never":   podsim.NeverReady(),
	"11.8-missing": podsim.ImageNotFound(),
}

// world is the namespace of a test. Its stack is called shop.
type world struct{ *harness.World }

// newStory returns a namespace on the shared operator and makes the test run in parallel with others.
func newStory(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{shared.NewWorld(t)}
}

func newWorld(t *testing.T, s *harness.Harness) *world {
	t.Helper()
	return &world{s.NewWorld(t)}
}

func (w *world) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

func (w *world) create(spec string) *appsapi.AppStack {
	w.Helper()
	app := &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

func (w *world) editSpec(change func(*appsapi.AppStackSpec)) {
	w.Helper()
	harness.Edit(w.World, &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}, func(s *appsapi.AppStack) { change(&s.Spec) })
}

func (w *world) editComponent(name string, change func(*appsapi.Component)) {
	w.Helper()
	w.editSpec(func(s *appsapi.AppStackSpec) {
		for i := range s.Components {
			if s.Components[i].Name == name {
				change(&s.Components[i])
			}
		}
	})
}

func (w *world) editOperations(component string, change func(*appsapi.ComponentOperations)) {
	w.Helper()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.EditOperations(component, change) })
}

func (w *world) stack() *appsapi.AppStack {
	return harness.Find(w.World, &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")})
}

func (w *world) deployment(name string) *appsv1.Deployment {
	return harness.Find(w.World, &appsv1.Deployment{ObjectMeta: w.objectMeta(name)})
}

func (w *world) service(name string) *corev1.Service {
	return harness.Find(w.World, &corev1.Service{ObjectMeta: w.objectMeta(name)})
}

// jobs returns the Jobs of a component, oldest first.
func (w *world) jobs(component string) []batchv1.Job {
	var list batchv1.JobList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{appsapi.LabelComponent: component})).To(Succeed())
	return list.Items
}

func (w *world) condition(conditionType string) func() string {
	return func() string { return w.Condition(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}, conditionType) }
}

func (w *world) waitReady() {
	w.Helper()
	w.WaitReady(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")})
}

// expectSteadyState checks that another reconciliation writes nothing.
func (w *world) expectSteadyState() {
	w.Helper()
	var childObjects []client.Object
	for _, c := range w.stack().Status.Components {
		childObjects = append(childObjects, &appsv1.Deployment{ObjectMeta: w.objectMeta(c.ResourceName)}, &corev1.Service{ObjectMeta: w.objectMeta(c.ResourceName)},
			&batchv1.Job{ObjectMeta: w.objectMeta(c.ResourceName)})
	}
	w.ExpectSteadyState(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}, childObjects...)
}
