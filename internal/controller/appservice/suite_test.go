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

var shared = &harness.Shared{Behavior: harness.BehaviorByTag(behaviors)}

func TestMain(m *testing.M) { harness.Main(m, shared) }

// newStory returns a namespace on the shared operator and makes the test run in parallel with others.
func newStory(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{World: shared.NewWorld(t), name: "web"}
}

// suite is a control plane with its own operator.
type suite struct{ *harness.Harness }

func newSuite(t *testing.T) *suite {
	t.Helper()
	return &suite{harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{})}
}

// world is the namespace of a test.
type world struct {
	*harness.World
	name string // of the AppService and its children
}

func newWorld(t *testing.T, s *suite) *world {
	t.Helper()
	return &world{World: s.NewWorld(t), name: "web"}
}

// forTest returns the same namespace for another test.
func (w *world) forTest(t *testing.T) *world { return &world{World: w.ForTest(t), name: w.name} }

// withName returns the same namespace for another AppService.
func (w *world) withName(name string) *world { return &world{World: w.World, name: name} }

// objectMeta returns the name of the AppService and of its children.
func (w *world) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: w.name}
}

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

// condition returns a condition of the current generation of the AppService as "status/reason: message".
func (w *world) condition(conditionType string) func() string {
	return func() string { return w.Condition(&appsapi.AppService{ObjectMeta: w.objectMeta()}, conditionType) }
}

func (w *world) waitReady() {
	w.Helper()
	w.WaitReady(&appsapi.AppService{ObjectMeta: w.objectMeta()})
}

// events returns the reasons of the events about the AppService, in order.
func (w *world) events() []string { return w.Events("AppService", w.name) }

// expectSteadyState checks that another reconciliation writes nothing.
func (w *world) expectSteadyState() {
	w.Helper()
	w.ExpectSteadyState(&appsapi.AppService{ObjectMeta: w.objectMeta()}, w.appAndChildren()[1:]...)
}

func (w *world) appAndChildren() []client.Object {
	return []client.Object{&appsapi.AppService{ObjectMeta: w.objectMeta()}, &appsv1.Deployment{ObjectMeta: w.objectMeta()}, &corev1.Service{ObjectMeta: w.objectMeta()}}
}
