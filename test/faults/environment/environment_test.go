// Package environment plays what happens around an operator: others write to what it holds,
// the API server goes away, policies say no, leaders die. The judges read the audit log and
// lists and watches of their own.
package environment

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func TestMain(m *testing.M) { stage.Main(m) }

// long asks for the full figures: HOLDFAST_LONG=1 go test ./test/faults/environment.
var long = os.Getenv("HOLDFAST_LONG") != ""

// lasts is how long something goes on: a sample, or all of it.
func lasts(sample, all time.Duration) time.Duration {
	if long {
		return all
	}
	return sample
}

// together are the tests that share the operator; alone are those that stop it, and so come
// one after the other.
var (
	together = map[string]func(*world, *report.Row){}
	alone    = []struct {
		name string
		test func(*world, *report.Row)
	}{
		{"14 ownership while nobody looks", ownershipWhileAway},
		{"23 leader failover", failover},
	}
)

// behaviors are what becomes of pods, by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"never": podsim.NeverReady(),
}

// TestEnvironment plays everything on one control plane.
func TestEnvironment(t *testing.T) {
	s := stage.New(t, stage.ByTag(behaviors), operator.Options{Fast: true})
	t.Run("together", func(t *testing.T) {
		for name, test := range together {
			t.Run(name, func(t *testing.T) {
				if !long {
					t.Parallel() // for minutes at once they would measure each other
				}
				run(t, s, name, test)
			})
		}
	})
	for _, a := range alone {
		t.Run(a.name, func(t *testing.T) { run(t, s, a.name, a.test) })
	}
	s.NeedsNoMore(t)
	// An API server that has just started knows of nobody's rights for a moment.
	t.Run("22 API server away", func(t *testing.T) { run(t, s, "22 API server away", outage) })
}

// run plays one test and writes down what it saw, also when it fails.
func run(t *testing.T, s *stage.Stage, name string, test func(*world, *report.Row)) {
	start, row := time.Now(), &report.Row{Test: name}
	t.Cleanup(func() {
		if t.Skipped() {
			return
		}
		if t.Failed() {
			row.Failed = max(row.Failed, 1)
		}
		row.Generated = max(row.Generated, row.Run)
		t.Logf("%s: %d of %d cases, %d failed: %s", name, row.Run, row.Generated, row.Failed, row.Seen)
		report.Since(t, start, *row)
	})
	test(&world{s.World(t)}, row)
}

// world is what a test plays in: a namespace. Its applications are called as the test likes.
type world struct{ *stage.World }

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// elsewhere is another namespace of the same test.
func (w *world) elsewhere() *world { return &world{w.Stage.World(w.T)} }

// on is the same world for a part of the test.
func (w *world) on(t *testing.T) *world { return &world{w.On(t)} }

// create creates a stack.
func (w *world) create(name, spec string) *appsapi.AppStack {
	w.Helper()
	app := &appsapi.AppStack{ObjectMeta: w.meta(name)}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

func (w *world) stack(name string) *appsapi.AppStack {
	return stage.Find(w.World, &appsapi.AppStack{ObjectMeta: w.meta(name)})
}

func (w *world) deployment(name string) *appsv1.Deployment {
	return stage.Find(w.World, &appsv1.Deployment{ObjectMeta: w.meta(name)})
}

func (w *world) becomesReady(name string) {
	w.Helper()
	w.BecomesReady(&appsapi.AppStack{ObjectMeta: w.meta(name)})
}

// patch sends a merge patch, which nobody else's edit can get in the way of.
func (w *world) patch(obj client.Object, body string, args ...any) {
	w.Helper()
	w.Expect(w.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, body, args...)))).To(Succeed())
}

// setImages changes the images of components, and returns the stack as it is then.
func (w *world) setImages(name string, images map[string]string) *appsapi.AppStack {
	w.Helper()
	app := w.stack(name)
	var ops []string
	for i, c := range app.Spec.Components {
		kind := "service"
		if c.Job != nil {
			kind = "job"
		}
		if image, ok := images[c.Name]; ok {
			ops = append(ops, fmt.Sprintf(`{"op":"replace","path":"/spec/components/%d/%s/image","value":%q}`, i, kind, image))
		}
	}
	patch := client.RawPatch(types.JSONPatchType, []byte("["+strings.Join(ops, ",")+"]"))
	w.Expect(w.Patch(w.Context(), app, patch)).To(Succeed())
	return app
}

// list returns all objects of a kind in the namespace.
func list[T client.Object](w *world, l client.ObjectList) []T {
	w.Helper()
	w.Expect(w.List(w.Context(), l, client.InNamespace(w.NS))).To(Succeed())
	var out []T
	w.Expect(meta.EachListItem(l, func(item runtime.Object) error {
		out = append(out, item.(T))
		return nil
	})).To(Succeed())
	return out
}

// pods are the UIDs of the pods that run, sorted. Those of jobs come and go by themselves.
func (w *world) pods() []string {
	w.Helper()
	var uids []string
	for _, pod := range list[*corev1.Pod](w, &corev1.PodList{}) {
		if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && pod.DeletionTimestamp == nil {
			uids = append(uids, pod.Name+" "+string(pod.UID))
		}
	}
	slices.Sort(uids)
	return uids
}

// restart brings the operator back after it was killed.
func (w *world) restart() {
	w.Helper()
	w.Expect(w.Operator.Start()).To(Succeed())
	w.Expect(w.Operator.WaitReady(w.Context())).To(Succeed())
}

// longest returns the longest of some times, in seconds.
func longest(all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all).Seconds()
}
