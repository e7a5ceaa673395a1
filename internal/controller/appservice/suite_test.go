package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

func TestMain(m *testing.M) { harness.Main(m) }

// suite is what stories are played on.
type suite struct{ *harness.Harness }

func newSuite(t *testing.T) *suite {
	t.Helper()
	return &suite{harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{})}
}

// TestStories runs every story at once against the same operator; each has a namespace.
func TestStories(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
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

// world is what a story plays in.
type world struct {
	*harness.World
	name string // of the AppService, and so of its children
}

func newWorld(t *testing.T, s *suite) *world {
	t.Helper()
	return &world{World: s.NewWorld(t), name: "web"}
}

// forTest is the same world for another test.
func (w *world) forTest(t *testing.T) *world { return &world{World: w.ForTest(t), name: w.name} }

// withName is the same world around another AppService.
func (w *world) withName(name string) *world { return &world{World: w.World, name: name} }

// objectMeta is the name of the AppService and of its children.
func (w *world) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: w.name}
}

// create creates the AppService.
func (w *world) create(spec string) *appsapi.AppService {
	w.Helper()
	app := &appsapi.AppService{ObjectMeta: w.objectMeta()}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

func edit[T client.Object](w *world, obj T, change func(T)) {
	w.Helper()
	harness.Edit(w.World, obj, change)
}

func find[T client.Object](w *world, obj T) T { return harness.Find(w.World, obj) }

func (w *world) app() *appsapi.AppService {
	return find(w, &appsapi.AppService{ObjectMeta: w.objectMeta()})
}

func (w *world) deployment() *appsv1.Deployment {
	return find(w, &appsv1.Deployment{ObjectMeta: w.objectMeta()})
}

func (w *world) service() *corev1.Service {
	return find(w, &corev1.Service{ObjectMeta: w.objectMeta()})
}

// condition reads one condition of the AppService as "status/reason: message", about the
// current generation.
func (w *world) condition(conditionType string) func() string {
	return func() string { return w.Condition(&appsapi.AppService{ObjectMeta: w.objectMeta()}, conditionType) }
}

func (w *world) waitReady() {
	w.Helper()
	w.WaitReady(&appsapi.AppService{ObjectMeta: w.objectMeta()})
}

// events are the reasons of the events about the AppService, in order.
func (w *world) events() []string { return w.Events("AppService", w.name) }

// expectSteadyState proves that a second look writes nothing.
func (w *world) expectSteadyState() {
	w.Helper()
	w.ExpectSteadyState(&appsapi.AppService{ObjectMeta: w.objectMeta()}, w.appAndChildren()[1:]...)
}

// appAndChildren are the AppService and its children.
func (w *world) appAndChildren() []client.Object {
	return []client.Object{&appsapi.AppService{ObjectMeta: w.objectMeta()}, &appsv1.Deployment{ObjectMeta: w.objectMeta()}, &corev1.Service{ObjectMeta: w.objectMeta()}}
}
