package appstack_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

const (
	// soon is how long everything may take that nobody holds up. The garbage collector
	// learns of a new kind only every half minute.
	soon = 60 * time.Second
	// theirs is a finalizer of somebody else.
	theirs = "example.com/theirs"
)

func kindIn(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

var (
	stackKind = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	podKind   = kindIn("", "pods")
	// workloadKinds have the edges that deletion goes by.
	workloadKinds = []schema.GroupVersionResource{
		kindIn("apps", "deployments"), kindIn("apps", "statefulsets"), kindIn("batch", "jobs"), kindIn("batch", "cronjobs")}
	// familyKinds are everything that may be left of a stack.
	familyKinds = append([]schema.GroupVersionResource{
		podKind, kindIn("", "services"), kindIn("apps", "replicasets"), kindIn("apps", "controllerrevisions")}, workloadKinds...)
)

// ending is a world whose stack ends in the sight of an independent eye.
type ending struct {
	*world
	eye *watcher.Watcher
	// began is when the deletion had been accepted.
	began time.Time
}

func openEye(t *testing.T, s *stage.Stage) *watcher.Watcher {
	t.Helper()
	eye, err := watcher.Start(t.Context(), s.Plane.Config, append([]schema.GroupVersionResource{stackKind}, familyKinds...)...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return eye
}

// runs creates the stack and waits until the operator has nothing more to do.
func (e *ending) runs(spec string) {
	e.Helper()
	e.create(spec)
	e.becomesReady()
	e.FallsSilent("shop")
}

// begins deletes the stack.
func (e *ending) begins(options ...client.DeleteOption) {
	e.Helper()
	e.Expect(e.Delete(e.Context(), &appsapi.AppStack{ObjectMeta: e.meta("shop")}, options...)).To(Succeed())
	e.began = time.Now()
}

// waits waits until the eye sees something.
func (e *ending) waits(what string, holds func(watcher.State) bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), soon)
	defer cancel()
	if err := e.eye.WaitFor(ctx, what, holds); err != nil {
		e.Fatalf("%v\nwhat is left: %v\nthe stack: %s", err, e.family(e.eye.State()), e.condition("Ready")())
	}
}

func (e *ending) stackGoes() {
	e.Helper()
	e.waits("the stack to go", func(s watcher.State) bool { return s.Get(stackKind, e.NS+"/shop") == nil })
}

// isGone waits until nothing is left.
func (e *ending) isGone() {
	e.Helper()
	e.stackGoes()
	e.waits("everything of it to go", func(s watcher.State) bool { return len(e.family(s)) == 0 })
}

// family is everything there is of a stack, but for itself: kind and name, and the UID.
func (e *ending) family(s watcher.State) map[string]types.UID {
	out := map[string]types.UID{}
	for _, kind := range familyKinds {
		for _, obj := range s.Live(kind) {
			if obj.GetNamespace() == e.NS {
				out[kind.Resource+" "+obj.GetName()] = obj.GetUID()
			}
		}
	}
	return out
}

// life is what the eye saw of a workload, in resourceVersions: they are one order for all
// kinds.
type life struct {
	component     string
	edges         []string
	leaving, gone int64 // gone with all its pods
}

func versionOf(event watcher.Event) int64 {
	version, err := strconv.ParseInt(event.ResourceVersion, 10, 64)
	if err != nil {
		panic(err) // etcd counts
	}
	return version
}

func (l *life) see(event watcher.Event) {
	if l.leaving == 0 && (event.Type == watch.Deleted || event.Object.GetDeletionTimestamp() != nil) {
		l.leaving = versionOf(event)
	}
	if l.leaving == 0 {
		l.edges = strings.Split(event.Object.GetAnnotations()["apps.holdfast.dev/depends-on"], ",")
	}
	if event.Type == watch.Deleted {
		l.gone = max(l.gone, versionOf(event))
	}
}

// lives are those of all workloads, by the label that they share with their pods.
func (e *ending) lives() map[string]*life {
	lives := map[string]*life{}
	for _, event := range e.eye.Events() {
		l := event.Object.GetLabels()
		id := l["apps.holdfast.dev/workload"]
		switch {
		case event.Object.GetNamespace() != e.NS || id == "":
		case slices.Contains(workloadKinds, event.Resource):
			if lives[id] == nil {
				lives[id] = &life{component: l["app.kubernetes.io/component"]}
			}
			lives[id].see(event)
		case event.Resource == podKind && event.Type == watch.Deleted && lives[id] != nil:
			lives[id].gone = max(lives[id].gone, versionOf(event))
		}
	}
	return lives
}

// wentInOrder proves that no workload was deleted before all that needed it, by what their
// annotations said, were gone with all their pods, and that the stack went last. It returns
// the components, the first that was deleted first.
func (e *ending) wentInOrder() []string {
	e.Helper()
	history := e.eye.History(stackKind, e.NS+"/shop")
	last := versionOf(history[len(history)-1])
	lives := e.lives()
	var order []*life
	for _, x := range lives {
		order = append(order, x)
		e.Expect(x.gone).To(And(BeNumerically(">", 0), BeNumerically("<", last)), "%s must go, and the stack after it", x.component)
		for _, y := range lives {
			if slices.Contains(x.edges, y.component) {
				e.Expect(x.gone).To(BeNumerically("<", y.leaving), "%s needs %s, which was deleted before it was gone", x.component, y.component)
			}
		}
	}
	slices.SortFunc(order, func(a, b *life) int { return int(a.leaving - b.leaving) })
	var names []string
	for _, l := range order {
		names = append(names, l.component)
	}
	return names
}

// notChildren are what is written to while a stack goes: what is said about it, and the data
// that is told that it is kept.
var notChildren = []string{"appstacks", "events", "persistentvolumeclaims", "secrets"}

// made are the creates and applies of children that were sent after the deletion began.
func (e *ending) made(calls audit.Events) audit.Events {
	return calls.Writes().Where(func(x *audit.Event) bool {
		return x.Verb != "delete" && !slices.Contains(notChildren, x.ObjectRef.Resource) && x.Received.After(e.began)
	})
}

// ends deletes the stack, sees everything go in order, and nothing made meanwhile.
func (e *ending) ends() (order []string) {
	e.Helper()
	calls := e.Calls(func() {
		e.begins()
		e.isGone()
	})
	e.Expect(e.made(calls)).To(BeEmpty())
	return e.wentInOrder()
}

// loses deletes what the stack is in, and sees it gone and nothing made meanwhile.
func (e *ending) loses(around client.Object) {
	e.Helper()
	calls := e.Calls(func() {
		e.Expect(e.Delete(e.Context(), around)).To(Succeed())
		e.began = time.Now()
		e.disappears(around)
	})
	e.Logf("gone after %.1f s", time.Since(e.began).Seconds())
	e.Expect(e.made(calls).Where((*audit.Event).Accepted)).To(BeEmpty())
}

// disappears waits until something is gone.
func (e *ending) disappears(obj client.Object) {
	e.Helper()
	e.Eventually(func() bool { return apierrors.IsNotFound(e.Get(e.Context(), client.ObjectKeyFromObject(obj), obj)) }, soon, "100ms").Should(BeTrue())
}

// TestEndings is what needs an operator of its own: to kill it, to take its kind away.
func TestEndings(t *testing.T) {
	t.Parallel()
	s := slowStage(t)
	t.Run("down", func(t *testing.T) { testDown(t, s) })
	t.Run("data", func(t *testing.T) { testData(t, s) })
	s.NeedsNoMore(t)
	t.Run("without the kind", func(t *testing.T) { testKind(t, s) })
}

// slowStage is a stage where pods take a moment to end.
func slowStage(t *testing.T) *stage.Stage {
	t.Helper()
	g := NewWithT(t)
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	operator.Install(t, plane)
	// The garbage collector learns of new kinds every half minute, or when it starts.
	g.Expect(plane.ControllerManager.Kill()).To(Succeed())
	g.Expect(plane.ControllerManager.Start()).To(Succeed())
	_, err := podsim.Start(t.Context(), plane.Config, podsim.Playing(stage.ByTag(behaviors)), podsim.Terminating(500*time.Millisecond))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(volsim.Start(t.Context(), plane.Config)).To(Succeed())
	log, err := audit.Open(plane.AuditLog())
	g.Expect(err).NotTo(HaveOccurred())
	return &stage.Stage{Plane: plane, Log: log, Operator: operator.Start(t, plane, operator.Options{})}
}

// unattended are the ways to delete a stack while nobody looks after it.
var unattended = map[string]func(*ending){
	"background": func(e *ending) { e.begins() },
	"foreground": func(e *ending) { e.begins(client.PropagationPolicy(metav1.DeletePropagationForeground)) },
	"orphan":     func(e *ending) { e.begins(client.PropagationPolicy(metav1.DeletePropagationOrphan)) },
	"namespace": func(e *ending) {
		e.Expect(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.NS}})).To(Succeed())
		e.began = time.Now()
	},
}

// testDown kills the operator, deletes, and starts it again: everything ends as if it had
// been there.
func testDown(t *testing.T, s *stage.Stage) {
	eye := openEye(t, s)
	worlds, before := map[string]*ending{}, map[string]any{}
	for _, name := range []string{"background", "foreground", "orphan", "namespace", "in the middle"} {
		worlds[name] = &ending{world: newWorld(t, s), eye: eye}
		worlds[name].create(diamond)
	}
	for name, e := range worlds {
		e.becomesReady()
		before[name] = e.family(eye.State())
	}
	middle := worlds["in the middle"]
	release := middle.slows("web")
	middle.begins()
	middle.waits("web to be deleted", func(s watcher.State) bool {
		return s.Get(workloadKinds[0], middle.NS+"/shop-web").GetDeletionTimestamp() != nil
	})
	middle.Expect(s.Operator.Kill()).To(Succeed())
	for name, begin := range unattended {
		begin(worlds[name])
	}
	release()
	time.Sleep(7 * time.Second) // what may go without us goes now; a namespace takes 5 s to begin
	for _, name := range []string{"background", "orphan"} {
		middle.Expect(worlds[name].family(eye.State())).To(Equal(before[name]), name)
	}
	middle.Expect(s.Operator.Start()).To(Succeed())
	back := time.Now()
	for name, e := range worlds {
		e.stackGoes()
		gone, _ := eye.First(stackKind, e.NS+"/shop", func(x watcher.Event) bool { return x.Type == watch.Deleted })
		t.Logf("%s: gone %.1f s after the operator's return", name, gone.Sub(back).Seconds())
		if name == "orphan" {
			e.waits("the references to go", func(s watcher.State) bool { return e.references(s) == 0 })
			e.Expect(e.family(eye.State())).To(Equal(before[name]))
			continue
		}
		e.isGone()
		if name == "background" || name == "in the middle" {
			e.wentInOrder()
		}
	}
	middle.disappears(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: worlds["namespace"].NS}})
	t.Logf("the namespace is gone %.1f s after the operator's return", time.Since(back).Seconds())
	calls, err := s.Log.Since(t.Context(), s.Plane.Config, 0)
	middle.Expect(err).NotTo(HaveOccurred())
	for name, e := range worlds {
		made := e.made(calls.In(e.NS).By(operator.User)).Where((*audit.Event).Accepted)
		e.Expect(len(made)).To(BeZero(), "%s: %s", name, made.Count())
	}
}
