package bench

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// removedComponent is the last component of a stack, which is removed.
const removedComponent = "extra"

// measurePruning measures P11: a component is removed from every stack, and then all stacks are deleted.
func measurePruning(t *testing.T, size scenarioSize) []results.Figure {
	s := newOperatorHarness(t)
	n := size.stacks
	tracker := s.watchStacks()
	start := time.Now()
	s.forEachParallel(n, func(i int) error {
		tracker.ready.start(newStack(i).Name, time.Now())
		return s.Create(s.Context(), newStack(i))
	})
	tracker.ready.waitDone(s, "stacks")
	s.Logf("%d stacks of %d components are Ready after %.1f s", n, len(newStack(0).Spec.Components), time.Since(start).Seconds())
	time.Sleep(settleTime)
	before, measureStart := s.usage(), time.Now()

	last := fmt.Appendf(nil, `[{"op":"remove","path":"/spec/components/%d"}]`, len(newStack(0).Spec.Components)-1)
	pruned, perPrune := s.timeCalls(n, func() {
		s.forEachParallel(n, func(i int) error {
			tracker.expectRemoved(newStack(i).Name+"-"+removedComponent, "Deployment", "Service")
			return s.Patch(s.Context(), newStack(i), client.RawPatch(types.JSONPatchType, last))
		})
		tracker.removed.waitDone(s, "children of the component")
	})
	s.Logf("component removed: %.1f s, %.2f calls per app", pruned, perPrune)

	deleted, perDelete := s.timeCalls(n, func() {
		s.forEachParallel(n, func(i int) error {
			tracker.expectRemoved(newStack(i).Name, "AppStack")
			for _, c := range newStack(i).Spec.Components {
				if c.Name != removedComponent {
					tracker.expectRemoved(newStack(i).Name+"-"+c.Name, "Deployment", "Service")
				}
			}
			return s.Delete(s.Context(), newStack(i))
		})
		tracker.removed.waitDone(s, "stacks and their children")
	})
	s.Logf("deleted: %.1f s, %.2f calls per app", deleted, perDelete)
	left := s.leftovers()
	return []results.Figure{
		{Row: "P11", Name: "component removed, wall", Value: pruned, Unit: "s", Note: fmt.Sprintf("from %d stacks; a Deployment and a Service each", n)},
		{Row: "P11", Name: "component removed, calls per app", Value: perPrune},
		{Row: "P11", Name: "all deleted, wall", Value: deleted, Unit: "s", Note: "two components in reverse order, and garbage collection"},
		{Row: "P11", Name: "all deleted, calls per app", Value: perDelete},
		results.Figure{Row: "P11", Name: "leftovers", Value: float64(len(left)), Note: strings.Join(left[:min(3, len(left))], " ")}.WithBounds(0, 0),
		s.externalCPU("P11", before, measureStart),
	}
}

// newStack returns a stack without pods, in which web depends on api.
func newStack(i int) *appsapi.AppStack {
	component := func(name string) appsapi.Component {
		c := appsapi.Component{Name: name, Service: &appsapi.ServiceComponent{}}
		c.Service.Image = "shop/" + name + ":1"
		c.Service.Replicas = new(int32(0))
		c.Service.Ports = []appsapi.Port{{Name: "http", Port: 80, TargetPort: 8080}}
		return c
	}
	web := component("web")
	web.DependsOn = []string{"api"}
	stack := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceFor(i), Name: fmt.Sprintf("stack-%05d", i)}}
	stack.Spec.Components = []appsapi.Component{component("api"), web, component(removedComponent)}
	return stack
}

// forEachParallel calls do n times with several goroutines.
func (s *harness) forEachParallel(n int, do func(i int) error) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range createWorkers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					s.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// timeCalls returns the duration of f and the operator's requests per application.
func (s *harness) timeCalls(n int, f func()) (seconds, calls float64) {
	s.Helper()
	before, start := s.calls(), time.Now()
	f()
	seconds = time.Since(start).Seconds()
	time.Sleep(settleTime) // events are asynchronous
	return seconds, float64(s.calls()-before) / float64(n)
}

// stackTracker watches stacks: which are not Ready, and which objects are not deleted yet.
type stackTracker struct{ ready, removed *stopwatch }

func (s *harness) watchStacks() stackTracker {
	d := stackTracker{newStopwatch(), newStopwatch()}
	watchObjects(s, &appsapi.AppStackList{}, func(eventType watch.EventType, o *appsapi.AppStack) {
		switch {
		case eventType == watch.Deleted:
			d.removed.stop("AppStack/" + o.Name)
		case meta.IsStatusConditionTrue(o.Status.Conditions, appsapi.ConditionReady):
			d.ready.stop(o.Name)
		}
	})
	watchObjects(s, &appsv1.DeploymentList{}, func(eventType watch.EventType, o *appsv1.Deployment) {
		if eventType == watch.Deleted {
			d.removed.stop("Deployment/" + o.Name)
		}
	})
	watchObjects(s, &corev1.ServiceList{}, func(eventType watch.EventType, o *corev1.Service) {
		if eventType == watch.Deleted {
			d.removed.stop("Service/" + o.Name)
		}
	})
	return d
}

func (d stackTracker) expectRemoved(name string, kinds ...string) {
	for _, kind := range kinds {
		d.removed.start(kind+"/"+name, time.Now())
	}
}

// childKinds are all kinds of children of an application.
var childKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "batch", Version: "v1", Kind: "Job"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	appsapi.GroupVersion.WithKind("AppStack"),
}

// leftovers returns the remaining objects; garbage collection takes time.
func (s *harness) leftovers() []string {
	s.Helper()
	const stableFor = 10 * time.Second
	left := s.listChildren()
	for since := time.Now(); len(left) > 0 && time.Since(since) < stableFor; time.Sleep(settleTime / 4) {
		if now := s.listChildren(); len(now) != len(left) {
			left, since = now, time.Now()
		}
	}
	return left
}

func (s *harness) listChildren() []string {
	s.Helper()
	var left []string
	for _, kind := range childKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		selection := client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy}
		if kind.Group == appsapi.GroupVersion.Group {
			selection = nil // owned by users
		}
		s.must(s.List(s.Context(), list, selection))
		for _, o := range list.Items {
			left = append(left, fmt.Sprintf("%s/%s/%s", kind.Kind, o.Namespace, o.Name))
		}
	}
	return left
}
