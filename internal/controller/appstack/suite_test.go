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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

func TestMain(m *testing.M) { harness.Main(m) }

// behaviors are what becomes of pods, by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"never":   podsim.NeverReady(),
	"slow":    podsim.Slow(time.Second),
	"done":    podsim.Succeeded(),
	"fail":    podsim.Failed(3),
}

// TestStories runs every story at once against the same operator; each has a namespace.
func TestStories(t *testing.T) {
	t.Parallel()
	s := harness.New(t, behaviorOf, operator.Options{})
	t.Run("group", func(t *testing.T) {
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(newWorld(t, s))
			})
		}
	})
	s.ExpectNoForbiddenRequests(t)
}

// stories are what users live through, by name.
var stories = map[string]func(*world){}

// world is what a story plays in. Its stack is called shop.
type world struct{ *harness.World }

func newWorld(t *testing.T, s *harness.Harness) *world {
	t.Helper()
	return &world{s.NewWorld(t)}
}

func (w *world) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// create creates the stack.
func (w *world) create(spec string) *appsapi.AppStack {
	w.Helper()
	app := &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

// editSpec changes the spec of the stack.
func (w *world) editSpec(change func(*appsapi.AppStackSpec)) {
	w.Helper()
	harness.Edit(w.World, &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}, func(s *appsapi.AppStack) { change(&s.Spec) })
}

// editComponent changes one component of the stack.
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

func (w *world) stack() *appsapi.AppStack {
	return harness.Find(w.World, &appsapi.AppStack{ObjectMeta: w.objectMeta("shop")})
}

func (w *world) deployment(name string) *appsv1.Deployment {
	return harness.Find(w.World, &appsv1.Deployment{ObjectMeta: w.objectMeta(name)})
}

func (w *world) service(name string) *corev1.Service {
	return harness.Find(w.World, &corev1.Service{ObjectMeta: w.objectMeta(name)})
}

// jobs are the Jobs of a component, oldest first.
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

// expectSteadyState proves that a second look writes nothing.
func (w *world) expectSteadyState() {
	w.Helper()
	var childObjects []client.Object
	for _, c := range w.stack().Status.Components {
		childObjects = append(childObjects, &appsv1.Deployment{ObjectMeta: w.objectMeta(c.ResourceName)}, &corev1.Service{ObjectMeta: w.objectMeta(c.ResourceName)},
			&batchv1.Job{ObjectMeta: w.objectMeta(c.ResourceName)})
	}
	w.ExpectSteadyState(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")}, childObjects...)
}
