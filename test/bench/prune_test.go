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

// leaves is the component that is removed, the last one of a stack.
const leaves = "extra"

// pruning is P11: a component leaves every stack, and then all stacks are deleted.
func pruning(t *testing.T, size liveSize) []results.Figure {
	s := liveStage(t)
	n := size.stacks
	gone := s.watchStacks()
	start := time.Now()
	s.each(n, func(i int) error {
		gone.ready.start(newStack(i).Name, time.Now())
		return s.Create(s.Context(), newStack(i))
	})
	gone.ready.wait(s, "stacks")
	s.Logf("%d stacks of %d components are Ready after %.1f s", n, len(newStack(0).Spec.Components), time.Since(start).Seconds())
	time.Sleep(calm)
	before, began := s.usage(), time.Now()

	last := fmt.Appendf(nil, `[{"op":"remove","path":"/spec/components/%d"}]`, len(newStack(0).Spec.Components)-1)
	pruned, perPrune := s.timed(n, func() {
		s.each(n, func(i int) error {
			gone.expect(newStack(i).Name+"-"+leaves, "Deployment", "Service")
			return s.Patch(s.Context(), newStack(i), client.RawPatch(types.JSONPatchType, last))
		})
		gone.removed.wait(s, "children of the component")
	})
	s.Logf("component removed: %.1f s, %.2f calls per app", pruned, perPrune)

	deleted, perDelete := s.timed(n, func() {
		s.each(n, func(i int) error {
			gone.expect(newStack(i).Name, "AppStack")
			for _, c := range newStack(i).Spec.Components {
				if c.Name != leaves {
					gone.expect(newStack(i).Name+"-"+c.Name, "Deployment", "Service")
				}
			}
			return s.Delete(s.Context(), newStack(i))
		})
		gone.removed.wait(s, "stacks and their children")
	})
	s.Logf("deleted: %.1f s, %.2f calls per app", deleted, perDelete)
	left := s.leftovers()
	return []results.Figure{
		{Row: "P11", Name: "component removed, wall", Got: pruned, Unit: "s", Note: fmt.Sprintf("from %d stacks; a Deployment and a Service each", n)},
		{Row: "P11", Name: "component removed, calls per app", Got: perPrune},
		{Row: "P11", Name: "all deleted, wall", Got: deleted, Unit: "s", Note: "two components in reverse order; with Kubernetes' garbage collector"},
		{Row: "P11", Name: "all deleted, calls per app", Got: perDelete},
		results.Figure{Row: "P11", Name: "leftovers", Got: float64(len(left)), Note: strings.Join(left[:min(3, len(left))], " ")}.AtMost(0, 0),
		s.others("P11", before, began),
	}
}

// newStack has no pods, and an order: web needs api.
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
	stack := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("stack-%05d", i)}}
	stack.Spec.Components = []appsapi.Component{component("api"), web, component(leaves)}
	return stack
}

// each does something n times as fast as several goroutines can.
func (s *stage) each(n int, do func(i int) error) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range creators {
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

// timed is how long something took, and how many calls of the operator per application.
func (s *stage) timed(n int, f func()) (seconds, calls float64) {
	s.Helper()
	before, start := s.calls(), time.Now()
	f()
	seconds = time.Since(start).Seconds()
	time.Sleep(calm) // the last events are on their way
	return seconds, float64(s.calls()-before) / float64(n)
}

// departures is what watches show of stacks: which are not Ready yet, and what is not gone
// yet.
type departures struct{ ready, removed *stopwatch }

func (s *stage) watchStacks() departures {
	d := departures{newStopwatch(), newStopwatch()}
	watching(s, &appsapi.AppStackList{}, func(what watch.EventType, o *appsapi.AppStack) {
		switch {
		case what == watch.Deleted:
			d.removed.stop("AppStack/" + o.Name)
		case meta.IsStatusConditionTrue(o.Status.Conditions, appsapi.ConditionReady):
			d.ready.stop(o.Name)
		}
	})
	watching(s, &appsv1.DeploymentList{}, func(what watch.EventType, o *appsv1.Deployment) {
		if what == watch.Deleted {
			d.removed.stop("Deployment/" + o.Name)
		}
	})
	watching(s, &corev1.ServiceList{}, func(what watch.EventType, o *corev1.Service) {
		if what == watch.Deleted {
			d.removed.stop("Service/" + o.Name)
		}
	})
	return d
}

func (d departures) expect(name string, kinds ...string) {
	for _, kind := range kinds {
		d.removed.start(kind+"/"+name, time.Now())
	}
}

// offspring are all kinds that an application may leave behind.
var offspring = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "batch", Version: "v1", Kind: "Job"}, {Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	appsapi.GroupVersion.WithKind("AppStack"),
}

// leftovers are what is there when nothing goes any more: the garbage collector takes its
// time.
func (s *stage) leftovers() []string {
	s.Helper()
	const still = 10 * time.Second
	left := s.listOffspring()
	for since := time.Now(); len(left) > 0 && time.Since(since) < still; time.Sleep(calm / 4) {
		if now := s.listOffspring(); len(now) != len(left) {
			left, since = now, time.Now()
		}
	}
	return left
}

func (s *stage) listOffspring() []string {
	s.Helper()
	var left []string
	for _, kind := range offspring {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		selection := client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy}
		if kind.Group == appsapi.GroupVersion.Group {
			selection = nil // they are the users'
		}
		s.must(s.List(s.Context(), list, selection))
		for _, o := range list.Items {
			left = append(left, fmt.Sprintf("%s/%s/%s", kind.Kind, o.Namespace, o.Name))
		}
	}
	return left
}
