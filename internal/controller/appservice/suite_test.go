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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	teststage "github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func TestMain(m *testing.M) { teststage.Main(m) }

// stage is what stories are played on.
type stage struct{ *teststage.Stage }

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{teststage.New(t, teststage.ByTag(behaviors), operator.Options{})}
}

// TestStories runs every story at once against the same operator; each has a namespace.
func TestStories(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	t.Run("group", func(t *testing.T) {
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(newWorld(t, s))
			})
		}
	})
	s.NeedsNoMore(t)
}

// stories are what users live through, by name.
var stories = map[string]func(*world){}

// world is what a story plays in.
type world struct {
	*teststage.World
	name string // of the AppService, and so of its children
}

func newWorld(t *testing.T, s *stage) *world {
	t.Helper()
	return &world{World: s.World(t), name: "web"}
}

// on is the same world for another test.
func (w *world) on(t *testing.T) *world { return &world{World: w.On(t), name: w.name} }

// called is the same world around another AppService.
func (w *world) called(name string) *world { return &world{World: w.World, name: name} }

// meta is the name of the AppService and of its children.
func (w *world) meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.NS, Name: w.name} }

// create creates the AppService.
func (w *world) create(spec string) *appsapi.AppService {
	w.Helper()
	app := &appsapi.AppService{ObjectMeta: w.meta()}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

func edit[T client.Object](w *world, obj T, change func(T)) {
	w.Helper()
	teststage.Edit(w.World, obj, change)
}

func get[T client.Object](w *world, obj T) T { return teststage.Find(w.World, obj) }

func (w *world) app() *appsapi.AppService {
	return get(w, &appsapi.AppService{ObjectMeta: w.meta()})
}

func (w *world) deployment() *appsv1.Deployment {
	return get(w, &appsv1.Deployment{ObjectMeta: w.meta()})
}

func (w *world) service() *corev1.Service {
	return get(w, &corev1.Service{ObjectMeta: w.meta()})
}

// condition reads one condition of the AppService as "status/reason: message", about the
// current generation.
func (w *world) condition(kind string) func() string {
	return func() string { return w.Condition(&appsapi.AppService{ObjectMeta: w.meta()}, kind) }
}

func (w *world) becomesReady() {
	w.Helper()
	w.BecomesReady(&appsapi.AppService{ObjectMeta: w.meta()})
}

// events are the reasons of the events about the AppService, in order.
func (w *world) events() []string { return w.Events("AppService", w.name) }

// settles proves that a second look writes nothing.
func (w *world) settles() {
	w.Helper()
	w.Settles(&appsapi.AppService{ObjectMeta: w.meta()}, w.all()[1:]...)
}

// all are the AppService and its children.
func (w *world) all() []client.Object {
	return []client.Object{&appsapi.AppService{ObjectMeta: w.meta()}, &appsv1.Deployment{ObjectMeta: w.meta()}, &corev1.Service{ObjectMeta: w.meta()}}
}
