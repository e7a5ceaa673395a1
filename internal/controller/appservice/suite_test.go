package appservice_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("stories need an API server: make test-api runs them")
		return
	}
	// Stories mostly wait: as many as there are cores at a time would take minutes.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	ctrl.SetLogger(logr.Discard()) // the client of the tests has nothing to say
	os.Exit(m.Run())
}

// stage is a control plane with one node, played, and an operator.
type stage struct {
	plane    *controlplane.Plane
	log      *audit.Log
	operator *operator.Operator
}

func newStage(t *testing.T) *stage {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	operator.Install(t, plane)
	if _, err := podsim.Start(t.Context(), plane.Config, podsim.Playing(byImage)); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	return &stage{plane: plane, log: log, operator: operator.Start(t, plane, operator.Options{})}
}

// needsNoMore fails the test if the operator asked for something that it may not do.
func (s *stage) needsNoMore(t *testing.T) {
	t.Helper()
	requests, err := s.log.Since(t.Context(), s.plane.Config, 0)
	if err != nil {
		t.Fatal(err)
	}
	forbidden := requests.By(operator.User).Where(func(e *audit.Event) bool {
		return e.ResponseStatus.Code == 403 && !strings.Contains(e.ResponseStatus.Message, "quota")
	})
	if len(forbidden) > 0 {
		t.Errorf("config/rbac does not cover what the operator does:\n%s", forbidden.Count())
	}
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
	s.needsNoMore(t)
}

// stories are what users live through, by name.
var stories = map[string]func(*world){}

// world is what a story plays in.
type world struct {
	*testing.T
	*WithT
	client.Client
	*stage
	ns   string
	name string // of the AppService, and so of its children
}

func newWorld(t *testing.T, s *stage) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(s.plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, WithT: NewWithT(t), Client: c, stage: s, ns: testutil.Namespace(t, s.plane.Config), name: "web"}
}

// on is the same world for another test.
func (w *world) on(t *testing.T) *world {
	other := *w
	other.T, other.WithT = t, NewWithT(t)
	return &other
}

// called is the same world around another AppService.
func (w *world) called(name string) *world {
	other := *w
	other.name = name
	return &other
}

// meta is the name of the AppService and of its children.
func (w *world) meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.ns, Name: w.name} }

// create creates the AppService.
func (w *world) create(spec string) *appsapi.AppService {
	w.Helper()
	app := &appsapi.AppService{ObjectMeta: w.meta()}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

// edit changes an object until nobody else was faster.
func edit[T client.Object](w *world, obj T, change func(T)) {
	w.Helper()
	w.Eventually(func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return w.Update(w.Context(), obj)
	}, "60s").Should(Succeed())
}

func (w *world) app() *appsapi.AppService {
	return get(w, &appsapi.AppService{ObjectMeta: w.meta()})
}

func (w *world) deployment() *appsv1.Deployment {
	return get(w, &appsv1.Deployment{ObjectMeta: w.meta()})
}

func (w *world) service() *corev1.Service {
	return get(w, &corev1.Service{ObjectMeta: w.meta()})
}

// get returns nil when there is no such object.
func get[T client.Object](w *world, obj T) T {
	var none T
	err := w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		w.Errorf("get: %v", err)
	}
	if err != nil {
		return none
	}
	return obj
}

// condition reads one condition of the AppService as "status/reason: message", about the
// current generation.
func (w *world) condition(kind string) func() string {
	return func() string {
		app := w.app()
		if app == nil {
			return "gone"
		}
		c := meta.FindStatusCondition(app.Status.Conditions, kind)
		if c == nil {
			return "none"
		}
		if c.ObservedGeneration != app.Generation || app.Status.ObservedGeneration != app.Generation {
			return "about an old generation"
		}
		return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
	}
}

func (w *world) becomesReady() {
	w.Helper()
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(Equal("True/Reconciled: Everything runs as declared"))
}

// events are the reasons of the events about the AppService, in order.
func (w *world) events() []string {
	var list eventsv1.EventList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.ns))).To(Succeed())
	var reasons []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "AppService" && e.Regarding.Name == w.name {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// requests are everybody's requests in this namespace while f runs.
func (w *world) requests(f func()) audit.Events {
	w.Helper()
	ctx := context.WithoutCancel(w.Context())
	from, err := w.log.Mark(ctx, w.plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	f()
	events, err := w.log.Since(ctx, w.plane.Config, from)
	w.Expect(err).NotTo(HaveOccurred())
	return events.In(w.ns)
}

// calls are the operator's.
func (w *world) calls(f func()) audit.Events {
	w.Helper()
	return w.requests(f).By(operator.User)
}

// settles proves that a second look writes nothing: everything is touched where it does
// not matter, and the operator does not call.
func (w *world) settles() {
	w.Helper()
	w.becomesReady()
	w.fallsSilent()
	quiet := w.calls(func() {
		w.touch()
		time.Sleep(time.Second) // there is no event for nothing happening
	})
	w.Expect(len(quiet)).To(BeZero(), "a second reconcile calls:\n%s", quiet.Count())
}

// fallsSilent waits until the operator has said what it had to say about the AppService:
// events follow the status, and nobody waits for them.
func (w *world) fallsSilent() {
	w.Helper()
	about := func(e *audit.Event) bool {
		return e.ObjectRef.Name == w.name || strings.HasPrefix(e.ObjectRef.Name, w.name+".") // an event
	}
	w.Eventually(func() string {
		return w.calls(func() { time.Sleep(300 * time.Millisecond) }).Where(about).Count().String()
	}, "60s", "1ms").Should(Equal(audit.Events{}.Count().String()))
}

// touch changes the AppService and its children where nobody holds anything.
func (w *world) touch() {
	w.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/touched":"at-%d"}}}`, time.Now().UnixNano()))
	for _, obj := range []client.Object{&appsapi.AppService{ObjectMeta: w.meta()}, &appsv1.Deployment{ObjectMeta: w.meta()}, &corev1.Service{ObjectMeta: w.meta()}} {
		w.Expect(client.IgnoreNotFound(w.Patch(w.Context(), obj, patch))).To(Succeed())
	}
}
