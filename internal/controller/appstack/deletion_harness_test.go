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
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

const (
	// deletionTimeout is the maximum time of a deletion without blockers. The garbage collector discovers new kinds
	// every 30 s, and the namespace controller also processes the namespaces of finished tests.
	deletionTimeout = 120 * time.Second
	// blockingFinalizer is a finalizer of another controller.
	blockingFinalizer = "example.com/theirs"
)

func resourceV1(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

var (
	stackResource = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appstacks"}
	podResource   = resourceV1("", "pods")
	// workloadResources have the dependencies that define the deletion order.
	workloadResources = []schema.GroupVersionResource{
		resourceV1("apps", "deployments"), resourceV1("apps", "statefulsets"), resourceV1("batch", "jobs"), resourceV1("batch", "cronjobs")}
	// ownedResources are all resources of a stack's children.
	ownedResources = append([]schema.GroupVersionResource{
		podResource, resourceV1("", "services"), resourceV1("apps", "replicasets"), resourceV1("apps", "controllerrevisions")}, workloadResources...)
)

// deletionCase is a stack whose deletion is recorded by a watch.
type deletionCase struct {
	*world
	watcher *watcher.Watcher
	// deletedAt is when the deletion was accepted.
	deletedAt time.Time
}

// deletionResources are the resources of a stack and its children.
var deletionResources = append([]schema.GroupVersionResource{stackResource}, ownedResources...)

func startDeletionWatcher(t *testing.T, s *harness.Harness) *watcher.Watcher {
	t.Helper()
	observer, err := watcher.Start(t.Context(), s.Plane.Config, deletionResources...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return observer
}

// createAndWaitIdle creates the stack and waits until the operator is idle.
func (e *deletionCase) createAndWaitIdle(spec string) {
	e.Helper()
	e.create(spec)
	e.waitReady()
	e.WaitIdle("shop")
}

func (e *deletionCase) deleteStack(options ...client.DeleteOption) {
	e.Helper()
	e.Expect(e.Delete(e.Context(), &appsapi.AppStack{ObjectMeta: e.objectMeta("shop")}, options...)).To(Succeed())
	e.deletedAt = time.Now()
}

// waitFor waits until the watched state matches.
func (e *deletionCase) waitFor(what string, condition func(watcher.State) bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), deletionTimeout)
	defer cancel()
	if err := e.watcher.WaitFor(ctx, what, condition); err != nil {
		e.Fatalf("%v\nremaining objects: %v\nstack: %s", err, e.ownedObjects(e.watcher.State()), e.condition("Ready")())
	}
}

func (e *deletionCase) waitStackGone() {
	e.Helper()
	e.waitFor("deletion of the stack", func(s watcher.State) bool { return s.Get(stackResource, e.NS+"/shop") == nil })
}

// waitAllGone waits until all objects are deleted.
func (e *deletionCase) waitAllGone() {
	e.Helper()
	e.waitStackGone()
	e.waitFor("deletion of all its objects", func(s watcher.State) bool { return len(e.ownedObjects(s)) == 0 })
}

// ownedObjects returns the children of a stack: kind and name to UID.
func (e *deletionCase) ownedObjects(s watcher.State) map[string]types.UID {
	out := map[string]types.UID{}
	for _, kind := range ownedResources {
		for _, obj := range s.Live(kind) {
			if obj.GetNamespace() == e.NS {
				out[kind.Resource+" "+obj.GetName()] = obj.GetUID()
			}
		}
	}
	return out
}

// workloadTimeline is the history of a workload in resourceVersions, which are ordered across kinds.
type workloadTimeline struct {
	component                    string
	dependencies                 []string
	deletionVersion, goneVersion int64 // deleted with all its pods
}

func eventVersion(event watcher.Event) int64 {
	version, err := strconv.ParseInt(event.ResourceVersion, 10, 64)
	if err != nil {
		panic(err) // resourceVersions are numbers
	}
	return version
}

func (l *workloadTimeline) observe(event watcher.Event) {
	if l.deletionVersion == 0 && (event.Type == watch.Deleted || event.Object.GetDeletionTimestamp() != nil) {
		l.deletionVersion = eventVersion(event)
	}
	if l.deletionVersion == 0 {
		l.dependencies = strings.Split(event.Object.GetAnnotations()["apps.holdfast.dev/depends-on"], ",")
	}
	if event.Type == watch.Deleted {
		l.goneVersion = max(l.goneVersion, eventVersion(event))
	}
}

// workloadTimelines returns the histories of all workloads, by the label that they share with their pods.
func (e *deletionCase) workloadTimelines() map[string]*workloadTimeline {
	timelines := map[string]*workloadTimeline{}
	for _, event := range e.watcher.Events() {
		l := event.Object.GetLabels()
		id := l["apps.holdfast.dev/workload"]
		switch {
		case event.Object.GetNamespace() != e.NS || id == "":
		case slices.Contains(workloadResources, event.Resource):
			if timelines[id] == nil {
				timelines[id] = &workloadTimeline{component: l["app.kubernetes.io/component"]}
			}
			timelines[id].observe(event)
		case event.Resource == podResource && event.Type == watch.Deleted && timelines[id] != nil:
			timelines[id].goneVersion = max(timelines[id].goneVersion, eventVersion(event))
		}
	}
	return timelines
}

// expectDeletionOrder checks that every workload was deleted only after all its dependents, according to their
// annotations, and their pods were deleted, and the stack last. It returns the components in the order of deletion.
func (e *deletionCase) expectDeletionOrder() []string {
	e.Helper()
	history := e.watcher.History(stackResource, e.NS+"/shop")
	stackGoneVersion := eventVersion(history[len(history)-1])
	timelines := e.workloadTimelines()
	var order []*workloadTimeline
	for _, x := range timelines {
		order = append(order, x)
		e.Expect(x.goneVersion).To(And(BeNumerically(">", 0), BeNumerically("<", stackGoneVersion)), "%s must be deleted before the stack", x.component)
		for _, y := range timelines {
			if slices.Contains(x.dependencies, y.component) {
				e.Expect(x.goneVersion).To(BeNumerically("<", y.deletionVersion), "%s depends on %s, which was deleted first", x.component, y.component)
			}
		}
	}
	slices.SortFunc(order, func(a, b *workloadTimeline) int { return int(a.deletionVersion - b.deletionVersion) })
	var names []string
	for _, l := range order {
		names = append(names, l.component)
	}
	return names
}

// nonChildResources are the resources that are written during the deletion of a stack: its status and events, and the
// labels of retained data.
var nonChildResources = []string{"appstacks", "events", "persistentvolumeclaims", "secrets"}

// childWritesAfterDeletion returns the writes of children after the deletion began.
func (e *deletionCase) childWritesAfterDeletion(calls audit.Events) audit.Events {
	return calls.Writes().Where(func(x *audit.Event) bool {
		return x.Verb != "delete" && !slices.Contains(nonChildResources, x.ObjectRef.Resource) && x.Received.After(e.deletedAt)
	})
}

// deleteAndExpectOrder deletes the stack and checks the order of deletion, and that no child is created.
func (e *deletionCase) deleteAndExpectOrder() (order []string) {
	e.Helper()
	calls := e.OperatorRequests(func() {
		e.deleteStack()
		e.waitAllGone()
	})
	e.Expect(e.childWritesAfterDeletion(calls)).To(BeEmpty())
	return e.expectDeletionOrder()
}

// deleteEnclosing deletes the namespace or the CRD of the stack, and checks that everything is deleted and no child is
// created.
func (e *deletionCase) deleteEnclosing(enclosing client.Object) {
	e.Helper()
	calls := e.OperatorRequests(func() {
		e.Expect(e.Delete(e.Context(), enclosing)).To(Succeed())
		e.deletedAt = time.Now()
		e.waitGone(enclosing)
	})
	e.Logf("deleted after %.1f s", time.Since(e.deletedAt).Seconds())
	e.Expect(e.childWritesAfterDeletion(calls).Where((*audit.Event).Accepted)).To(BeEmpty())
}

func (e *deletionCase) waitGone(obj client.Object) {
	e.Helper()
	e.Eventually(func() bool { return apierrors.IsNotFound(e.Get(e.Context(), client.ObjectKeyFromObject(obj), obj)) }, deletionTimeout, "100ms").Should(BeTrue())
}

// TestDeletion runs tests that need their own operator to kill it, or to delete its CRD.
func TestDeletion(t *testing.T) {
	t.Parallel()
	s := newSlowTerminationHarness(t)
	t.Run("down", func(t *testing.T) { testDeletionWhileOperatorDown(t, s) })
	t.Run("data", func(t *testing.T) { testDataDeletion(t, s) })
	s.ExpectNoForbiddenRequests(t)
	t.Run("CRD deletion", func(t *testing.T) { testCRDDeletion(t, s) })
}

// newSlowTerminationHarness is a harness whose pods take a moment to terminate.
func newSlowTerminationHarness(t *testing.T) *harness.Harness {
	t.Helper()
	g := NewWithT(t)
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	operator.Install(t, plane)
	// The garbage collector discovers new kinds every 30 s, or when it starts.
	g.Expect(plane.ControllerManager.Kill()).To(Succeed())
	g.Expect(plane.ControllerManager.Start()).To(Succeed())
	_, err := podsim.Start(t.Context(), plane.Config, podsim.WithBehavior(harness.BehaviorByTag(behaviors)), podsim.WithTerminationDelay(500*time.Millisecond))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(volsim.Start(t.Context(), plane.Config)).To(Succeed())
	log, err := audit.Open(plane.AuditLog())
	g.Expect(err).NotTo(HaveOccurred())
	return &harness.Harness{Plane: plane, AuditLog: log, Operator: operator.Start(t, plane, operator.Options{})}
}

// deletionMethods are the ways to delete a stack.
var deletionMethods = map[string]func(*deletionCase){
	"background": func(e *deletionCase) { e.deleteStack() },
	"foreground": func(e *deletionCase) { e.deleteStack(client.PropagationPolicy(metav1.DeletePropagationForeground)) },
	"orphan":     func(e *deletionCase) { e.deleteStack(client.PropagationPolicy(metav1.DeletePropagationOrphan)) },
	"namespace": func(e *deletionCase) {
		e.Expect(e.Delete(e.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.NS}})).To(Succeed())
		e.deletedAt = time.Now()
	},
}

// testDeletionWhileOperatorDown kills the operator, deletes, and restarts it: the result is the same as with a running
// operator.
func testDeletionWhileOperatorDown(t *testing.T, s *harness.Harness) {
	observer := startDeletionWatcher(t, s)
	cases, before := map[string]*deletionCase{}, map[string]any{}
	for _, name := range []string{"background", "foreground", "orphan", "namespace", "interrupted"} {
		cases[name] = &deletionCase{world: newWorld(t, s), watcher: observer}
		cases[name].create(diamondSpec)
	}
	for name, e := range cases {
		e.waitReady()
		before[name] = e.ownedObjects(observer.State())
	}
	interrupted := cases["interrupted"]
	release := interrupted.delayPodTermination("web")
	interrupted.deleteStack()
	interrupted.waitFor("web to be deleted", func(s watcher.State) bool {
		return s.Get(workloadResources[0], interrupted.NS+"/shop-web").GetDeletionTimestamp() != nil
	})
	interrupted.Expect(s.Operator.Kill()).To(Succeed())
	for name, deleteBy := range deletionMethods {
		deleteBy(cases[name])
	}
	release()
	time.Sleep(7 * time.Second) // deletions that do not need the operator happen now; a namespace takes 5 s to begin
	for _, name := range []string{"background", "orphan"} {
		interrupted.Expect(cases[name].ownedObjects(observer.State())).To(Equal(before[name]), name)
	}
	interrupted.Expect(s.Operator.Start()).To(Succeed())
	restartedAt := time.Now()
	for name, e := range cases {
		e.waitStackGone()
		goneAt, _ := observer.FirstObserved(stackResource, e.NS+"/shop", func(x watcher.Event) bool { return x.Type == watch.Deleted })
		t.Logf("%s: deleted %.1f s after the restart of the operator", name, goneAt.Sub(restartedAt).Seconds())
		if name == "orphan" {
			e.waitFor("removal of the owner references", func(s watcher.State) bool { return e.countOwnerReferences(s) == 0 })
			e.Expect(e.ownedObjects(observer.State())).To(Equal(before[name]))
			continue
		}
		e.waitAllGone()
		if name == "background" || name == "interrupted" {
			e.expectDeletionOrder()
		}
	}
	interrupted.waitGone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cases["namespace"].NS}})
	t.Logf("the namespace is deleted %.1f s after the restart of the operator", time.Since(restartedAt).Seconds())
	calls, err := s.AuditLog.Since(t.Context(), s.Plane.Config, 0)
	interrupted.Expect(err).NotTo(HaveOccurred())
	for name, e := range cases {
		writes := e.childWritesAfterDeletion(calls.In(e.NS).By(operator.User)).Where((*audit.Event).Accepted)
		e.Expect(len(writes)).To(BeZero(), "%s: %s", name, writes.Count())
	}
}
