package bench

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// population is a growing number of AppServices, all Ready, with their operator.
type population struct {
	*harness
	size        int
	startedAt   time.Time
	growthSteps []results.GrowthStep
}

func newPopulation(t testing.TB) *population {
	p := &population{harness: newHarness(t, controlplane.Options{}), startedAt: time.Now()}
	p.countRequestsByVerb()
	env, _ := operator.ManifestSettings(t)
	p.op = operator.Start(t, p.plane, operator.Options{NoRace: true, Args: p.pprofArgs(), Env: env})
	return p
}

// logProgress logs the progress of a long run.
func (p *population) logProgress(format string, args ...any) {
	p.Helper()
	p.Logf("%4.0f s  "+format, append([]any{time.Since(p.startedAt).Seconds()}, args...)...)
}

// waitIdle waits until the operator and the control plane are idle.
func (p *population) waitIdle() {
	p.Helper()
	for _, process := range []int{p.plane.ControllerManager.Pid(), p.op.Pid()} {
		p.waitProcessIdle(process)
	}
}

// populationListKinds are the kinds that the operator writes.
var populationListKinds = []schema.GroupVersionKind{
	appsapi.GroupVersion.WithKind("AppServiceList"),
	appsv1.SchemeGroupVersion.WithKind("DeploymentList"),
	corev1.SchemeGroupVersion.WithKind("ServiceList"),
	appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"),
	eventsv1.SchemeGroupVersion.WithKind("EventList"),
}

// objectKey is the key of an object of the population.
type objectKey struct{ kind, namespace, name string }

// appName returns the name of the AppService of the object.
func (t objectKey) appName() string {
	name, _, _ := strings.Cut(t.name, ".") // events have a suffix
	return name[:min(len(name), len(newApp(0).Name))]
}

// snapshot maps each object to its resource version.
type snapshot map[objectKey]string

func (p *population) snapshot() snapshot {
	p.Helper()
	all := snapshot{}
	for _, kind := range populationListKinds {
		p.forEachObject(kind, func(m *metav1.PartialObjectMetadata) {
			if strings.HasPrefix(m.Namespace, "bench-") {
				all[objectKey{kind.Kind, m.Namespace, m.Name}] = m.ResourceVersion
			}
		})
	}
	return all
}

// forEachObject visits all objects of a kind in pages.
func (p *population) forEachObject(list schema.GroupVersionKind, visit func(*metav1.PartialObjectMetadata)) {
	p.Helper()
	var page metav1.PartialObjectMetadataList
	for {
		page.SetGroupVersionKind(list)
		p.must(p.List(p.Context(), &page, client.Limit(batchSize), client.Continue(page.Continue)))
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if page.Continue == "" {
			return
		}
	}
}

// changedSince returns new and changed objects. Deleted ones are ignored, because events expire.
func (after snapshot) changedSince(before snapshot) []objectKey {
	var changed []objectKey
	for t, version := range after {
		if before[t] != version {
			changed = append(changed, t)
		}
	}
	return changed
}
