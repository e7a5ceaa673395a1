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
	// trialRollouts, at most, come first, one per second, and tell how much a rollout computes: of the machine, all that takes part.
	trialRollouts = 20
	// rolloutLoad is which share of the cores rollouts then take. With all of them, each would wait for the machine and
	// not for the operator.
	rolloutLoad = 0.5
	// podTime is how long a pod takes to become ready.
	podTime = time.Second
)

// edges of the order in which a CloudManager comes up.
var edges = []struct{ needed, needing, does string }{
	{"db", "identity", "logs in, makes a schema and an account, tries it, writes the binding, applies; the server is played"},
	{"identity", "front", "applies"},
}

// rollingOut is P10: how long after a component is ready the next one is created.
func rollingOut(t *testing.T, size liveSize) []results.Figure {
	s := liveStage(t)
	_, err := podsim.Start(t.Context(), s.plane.Config, podsim.Playing(func(*corev1.Pod) podsim.Behavior { return podsim.Slow(podTime) }))
	s.must(err)
	s.must(volsim.Start(t.Context(), s.plane.Config))
	f := newFilm(s)
	trial := min(trialRollouts, size.rollouts)
	each := s.rollOut(f, 0, trial, 1)
	f.forget()
	rate := rolloutLoad * float64(runtime.NumCPU()) / each
	s.Logf("%d CloudManagers at %.2f/s: each takes %.2f s of CPU", size.rollouts, rate, each)
	calls, before, start := s.calls(), s.usage(), time.Now()
	s.profiled("rollout", func() { each = s.rollOut(f, trial, trial+size.rollouts, rate) })
	others := s.others("P10", before, start)
	var out []results.Figure
	violations := 0
	for _, e := range edges {
		took, wrong := f.edge(e.needed, e.needing)
		name := fmt.Sprintf("%s ready to %s created", e.needed, e.needing)
		s.Logf("%s: %s, %d out of order", name, took, wrong)
		violations += wrong
		out = append(out,
			results.Figure{Row: "P10", Name: name + ", p50", Got: took.at(0.50), Unit: "ms", Note: fmt.Sprintf("n=%d; %s", len(took), e.does)}.AtMost(50, 10).DisturbedBy(others),
			results.Figure{Row: "P10", Name: name + ", p99", Got: took.at(0.99), Unit: "ms"}.AtMost(50, 50).DisturbedBy(others))
	}
	return append(out,
		results.Figure{Row: "P10", Name: "violations of the order", Got: float64(violations), Note: "by resourceVersion"}.AtMost(0, 0),
		results.Figure{Row: "P10", Name: "CPU per CloudManager", Got: each, Unit: "s", Note: fmt.Sprintf("of all that take part, of which the API server is most; they came at %.2f/s, half of what the cores hold, and their pods were ready after %s", rate, podTime)},
		results.Figure{Row: "P10", Name: "requests of the operator per CloudManager", Got: float64(s.calls()-calls) / float64(size.rollouts), Note: "an account on the server and the binding among them"}, others)
}

// rollOut brings CloudManagers up at a rate, and returns how much CPU each of them took.
func (s *stage) rollOut(f *film, from, to int, perSecond float64) float64 {
	s.Helper()
	s.comeToRest()
	before := s.usage()
	openLoop(s.Context(), perSecond, to-from, func(i int, _ time.Time) {
		if err := s.Create(s.Context(), newCloudManager(from+i)); err != nil {
			s.Error(err)
		}
	})
	f.wait(to - from)
	s.comeToRest()
	return s.usage().since(before).total() / float64(to-from)
}

func newCloudManager(i int) *appsapi.CloudManager {
	cm := &appsapi.CloudManager{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("cm-%05d", i)}}
	cm.Spec.Front.Deployment = appsapi.CloudManagerDeployment{Image: "shop/front:1", Ports: []appsapi.Port{{Port: 80}}}
	cm.Spec.Identity.Deployment = appsapi.CloudManagerDeployment{Image: "shop/identity:1", Ports: []appsapi.Port{{Port: 8080}}}
	cm.Spec.DB.StatefulSet = appsapi.CloudManagerStatefulSet{
		Image: "mariadb:10.11", Storage: appsapi.CloudManagerStorage{Size: resource.MustParse("1Gi")},
	}
	return cm
}

// moment is when a watch saw something, and in which state of the world.
type moment struct {
	at      time.Time
	version string
}

// film is when each component of each application was created and ready. Times are those of
// the driver's watches; which of two came first is told by their resourceVersions, for there
// is one watch per kind.
type film struct {
	*stage
	mu             sync.Mutex
	created, ready map[string]map[string]moment // by application and component
}

func newFilm(s *stage) *film {
	f := &film{stage: s, created: map[string]map[string]moment{}, ready: map[string]map[string]moment{}}
	watching(s, &appsv1.StatefulSetList{}, func(what watch.EventType, o *appsv1.StatefulSet) {
		st := o.Status
		f.see(what, o, st.ObservedGeneration >= o.Generation && serves(*o.Spec.Replicas, st.Replicas, st.UpdatedReplicas, st.AvailableReplicas))
	})
	watching(s, &appsv1.DeploymentList{}, func(what watch.EventType, o *appsv1.Deployment) {
		st := o.Status
		f.see(what, o, st.ObservedGeneration >= o.Generation && serves(*o.Spec.Replicas, st.Replicas, st.UpdatedReplicas, st.AvailableReplicas))
	})
	return f
}

// serves says whether all pods that are wanted are there, of the current kind, and available.
func serves(want int32, counts ...int32) bool {
	for _, n := range counts {
		if n != want {
			return false
		}
	}
	return true
}

func (f *film) see(what watch.EventType, o client.Object, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, app, component := moment{time.Now(), o.GetResourceVersion()}, o.GetLabels()[appsapi.LabelInstance], o.GetLabels()[appsapi.LabelComponent]
	note := func(scenes map[string]map[string]moment) {
		if scenes[app] == nil {
			scenes[app] = map[string]moment{}
		}
		if _, ok := scenes[app][component]; !ok {
			scenes[app][component] = now
		}
	}
	if what == watch.Added {
		note(f.created)
	}
	if ready {
		note(f.ready)
	}
}

// forget is for what has been seen so far.
func (f *film) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.created)
	clear(f.ready)
}

// wait returns when the last component of n applications is ready.
func (f *film) wait(n int) {
	f.Helper()
	last := edges[len(edges)-1].needing
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

// edge is how long each application took from one component to the next, and how many did
// not wait.
func (f *film) edge(needed, needing string) (took latencies, wrong int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for app, created := range f.created {
		ready, ok := f.ready[app][needed]
		next, began := created[needing]
		if !began {
			continue // wait has seen all
		}
		c, err := resourceversion.CompareResourceVersion(ready.version, next.version)
		if !ok || err != nil || c >= 0 {
			wrong++
			continue
		}
		took = append(took, next.at.Sub(ready.at))
	}
	return took, wrong
}
