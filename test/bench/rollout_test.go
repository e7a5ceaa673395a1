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
	// calibrationRollouts is the maximum number of rollouts, one per second, that determine the CPU time per rollout.
	calibrationRollouts = 20
	// rolloutLoad is the share of the cores that rollouts use. With all cores, they would measure the machine instead of
	// the operator.
	rolloutLoad = 0.5
	// podReadyDelay is the time until a pod is ready.
	podReadyDelay = time.Second
)

// dependencyEdges are the dependencies of a CloudManager.
var dependencyEdges = []struct{ needed, needing, does string }{
	{"db", "identity", "logs in, creates and tests schema and account, writes the binding, applies; the server is simulated"},
	{"identity", "front", "applies"},
}

// measureRollout measures P10: the time from the readiness of a component to the creation of its dependent.
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
		results.Figure{Row: "P10", Name: "CPU per CloudManager", Value: cpuPerApp, Unit: "s", Note: fmt.Sprintf("of all processes, mostly the API server; created at %.2f/s, half of the capacity; pods ready after %s", rate, podReadyDelay)},
		results.Figure{Row: "P10", Name: "requests of the operator per CloudManager", Value: float64(s.calls()-calls) / float64(size.rollouts), Note: "including the database account and the binding"}, external)
}

// runRollouts creates CloudManagers at a rate and returns the CPU time per CloudManager.
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

// observation is the time and the resource version of an observed state.
type observation struct {
	at              time.Time
	resourceVersion string
}

// rolloutTimeline records when each component of each application was created and ready. Times are those of the driver's
// watches; the order is determined by resource versions, because there is one watch per kind.
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

// replicasAvailable reports whether all desired pods are updated and available.
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

// reset drops all observations.
func (f *rolloutTimeline) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.created)
	clear(f.ready)
}

// waitReady waits until the last component of n applications is ready.
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
			return fmt.Sprintf("%d of %d are ready", done, n)
		}
		return ""
	})
}

// edgeLatencies returns the time from a dependency to its dependent for each application, and the number of order
// violations.
func (f *rolloutTimeline) edgeLatencies(dependency, dependent string) (took latencies, violations int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for app, created := range f.created {
		ready, ok := f.ready[app][dependency]
		next, began := created[dependent]
		if !began {
			continue // waitReady has waited for all
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
