package bench

import (
	"fmt"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

const (
	// calibrationRollouts, at most, come first, one per second, and tell how much a rollout computes: of the machine, all that takes part.
	calibrationRollouts = 20
	// rolloutLoad is which share of the cores rollouts then take. With all of them, each would wait for the machine and
	// not for the operator.
	rolloutLoad = 0.5
	// podReadyDelay is how long a pod takes to become ready.
	podReadyDelay = time.Second
)

// dependencyEdges of the order in which a CloudManager comes up.
var dependencyEdges = []struct{ needed, needing, does string }{
	{"db", "identity", "logs in, makes a schema and an account, tries it, writes the binding, applies; the server is played"},
	{"identity", "front", "applies"},
}

// measureRollout is P10: how long after a component is ready the next one is created.
func measureRollout(t *testing.T, size scenarioSize) []results.Figure {
	s := newOperatorHarness(t)
	_, err := podsim.Start(t.Context(), s.plane.Config, podsim.WithBehavior(func(*corev1.Pod) podsim.Behavior { return podsim.Slow(podReadyDelay) }))
	s.must(err)
	s.must(volsim.Start(t.Context(), s.plane.Config))
	timeline := newRolloutTimeline(s)
	calibration := min(calibrationRollouts, size.rollouts)
	cpuPerApp := s.runRollouts(timeline, 0, calibration, 1)
	timeline.reset()
	rate := rolloutLoad * float64(runtime.NumCPU()) / cpuPerApp
	s.Logf("%d CloudManagers at %.2f/s: each takes %.2f s of CPU", size.rollouts, rate, cpuPerApp)
	calls, before, start := s.calls(), s.usage(), time.Now()
	s.withProfile("rollout", func() { cpuPerApp = s.runRollouts(timeline, calibration, calibration+size.rollouts, rate) })
	external := s.externalCPU("P10", before, start)
	var out []results.Figure
	violations := 0
	for _, e := range dependencyEdges {
		took, outOfOrder := timeline.edgeLatencies(e.needed, e.needing)
		name := fmt.Sprintf("%s ready to %s created", e.needed, e.needing)
		s.Logf("%s: %s, %d out of order", name, took, outOfOrder)
		violations += outOfOrder
		out = append(out,
			results.Figure{Row: "P10", Name: name + ", p50", Value: took.percentile(0.50), Unit: "ms", Note: fmt.Sprintf("n=%d; %s", len(took), e.does)}.WithBounds(50, 10).DisturbedBy(external),
			results.Figure{Row: "P10", Name: name + ", p99", Value: took.percentile(0.99), Unit: "ms"}.WithBounds(50, 50).DisturbedBy(external))
	}
	return append(out,
		results.Figure{Row: "P10", Name: "violations of the order", Value: float64(violations), Note: "by resourceVersion"}.WithBounds(0, 0),
		results.Figure{Row: "P10", Name: "CPU per CloudManager", Value: cpuPerApp, Unit: "s", Note: fmt.Sprintf("of all that take part, of which the API server is most; they came at %.2f/s, half of what the cores hold, and their pods were ready after %s", rate, podReadyDelay)},
		results.Figure{Row: "P10", Name: "requests of the operator per CloudManager", Value: float64(s.calls()-calls) / float64(size.rollouts), Note: "an account on the server and the binding among them"}, external)
}

// runRollouts brings CloudManagers up at a rate, and returns how much CPU each of them took.
func (s *harness) runRollouts(timeline *rolloutTimeline, from, to int, perSecond float64) float64 {
	s.Helper()
	s.waitAllIdle()
	before := s.usage()
	openLoop(s.Context(), perSecond, to-from, func(i int, _ time.Time) {
		if err := s.Create(s.Context(), newCloudManager(from+i)); err != nil {
			s.Error(err)
		}
	})
	timeline.waitReady(to - from)
	s.waitAllIdle()
	return s.usage().since(before).total() / float64(to-from)
}

func newCloudManager(i int) *appsapi.CloudManager {
	cm := &appsapi.CloudManager{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceFor(i), Name: fmt.Sprintf("cm-%05d", i)}}
	cm.Spec.Front.Deployment = appsapi.CloudManagerDeployment{Image: "shop/front:1", Ports: []appsapi.Port{{Port: 80}}}
	cm.Spec.Identity.Deployment = appsapi.CloudManagerDeployment{Image: "shop/identity:1", Ports: []appsapi.Port{{Port: 8080}}}
	cm.Spec.DB.StatefulSet = appsapi.CloudManagerStatefulSet{
		Image: "mariadb:10.11", Storage: appsapi.CloudManagerStorage{Size: resource.MustParse("1Gi")},
	}
	return cm
}

// observation is when a watch saw something, and in which state of the world.
type observation struct {
	at              time.Time
	resourceVersion string
}

// rolloutTimeline is when each component of each application was created and ready. Times are those of
// the driver's watches; which of two came first is told by their resourceVersions, for there
// is one watch per kind.
type rolloutTimeline struct {
	*harness
	mu             sync.Mutex
	created, ready map[string]map[string]observation // by application and component
}

func newRolloutTimeline(s *harness) *rolloutTimeline {
	f := &rolloutTimeline{harness: s, created: map[string]map[string]observation{}, ready: map[string]map[string]observation{}}
	watchObjects(s, &appsv1.StatefulSetList{}, func(eventType watch.EventType, o *appsv1.StatefulSet) {
		st := o.Status
		f.observe(eventType, o, st.ObservedGeneration >= o.Generation && replicasAvailable(*o.Spec.Replicas, st.Replicas, st.UpdatedReplicas, st.AvailableReplicas))
	})
	watchObjects(s, &appsv1.DeploymentList{}, func(eventType watch.EventType, o *appsv1.Deployment) {
		st := o.Status
		f.observe(eventType, o, st.ObservedGeneration >= o.Generation && replicasAvailable(*o.Spec.Replicas, st.Replicas, st.UpdatedReplicas, st.AvailableReplicas))
	})
	return f
}

// replicasAvailable says whether all pods that are wanted are there, of the current kind, and available.
func replicasAvailable(want int32, counts ...int32) bool {
	for _, n := range counts {
		if n != want {
			return false
		}
	}
	return true
}

func (f *rolloutTimeline) observe(eventType watch.EventType, o client.Object, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, app, component := observation{time.Now(), o.GetResourceVersion()}, o.GetLabels()[appsapi.LabelInstance], o.GetLabels()[appsapi.LabelComponent]
	record := func(times map[string]map[string]observation) {
		if times[app] == nil {
			times[app] = map[string]observation{}
		}
		if _, ok := times[app][component]; !ok {
			times[app][component] = now
		}
	}
	if eventType == watch.Added {
		record(f.created)
	}
	if ready {
		record(f.ready)
	}
}

// reset is for what has been seen so far.
func (f *rolloutTimeline) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.created)
	clear(f.ready)
}

// waitReady returns when the last component of n applications is ready.
func (f *rolloutTimeline) waitReady(n int) {
	f.Helper()
	last := dependencyEdges[len(dependencyEdges)-1].needing
	f.eventually("rollouts", func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		done := 0
		for components := range maps.Values(f.ready) {
			if _, ok := components[last]; ok {
				done++
			}
		}
		if done < n {
			return fmt.Sprintf("%d of %d are up", done, n)
		}
		return ""
	})
}

// edgeLatencies is how long each application took from one component to the next, and how many did
// not wait.
func (f *rolloutTimeline) edgeLatencies(dependency, dependent string) (took latencies, violations int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for app, created := range f.created {
		ready, ok := f.ready[app][dependency]
		next, began := created[dependent]
		if !began {
			continue // wait has seen all
		}
		c, err := resourceversion.CompareResourceVersion(ready.resourceVersion, next.resourceVersion)
		if !ok || err != nil || c >= 0 {
			violations++
			continue
		}
		took = append(took, next.at.Sub(ready.at))
	}
	return took, violations
}
