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
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func TestMain(m *testing.M) { harness.Main(m) }

// longRun asks for the full figures: HOLDFAST_LONG=1 go test ./test/faults/environment.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// sampleOrFull is how long something goes on: a sample, or all of it.
func sampleOrFull(sampleTime, fullTime time.Duration) time.Duration {
	if longRun {
		return fullTime
	}
	return sampleTime
}

// parallelTests are the tests that share the operator; alone are those that stop it, and so come
// one after the other.
var (
	parallelTests = map[string]func(*world, *report.Row){}
	serialTests   = []struct {
		name string
		test func(*world, *report.Row)
	}{
		{"14 ownership while nobody looks", ownershipRestoredAfterRestart},
		{"23 leader failover", failover},
	}
)

// behaviors are what becomes of pods, by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"never": podsim.NeverReady(),
}

// TestOperatorInHostileEnvironment plays everything on one control plane.
func TestOperatorInHostileEnvironment(t *testing.T) {
	s := harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{NoRace: true})
	t.Run("together", func(t *testing.T) {
		for name, test := range parallelTests {
			t.Run(name, func(t *testing.T) {
				if !longRun {
					t.Parallel() // for minutes at once they would measure each other
				}
				runTest(t, s, name, test)
			})
		}
	})
	for _, a := range serialTests {
		t.Run(a.name, func(t *testing.T) { runTest(t, s, a.name, a.test) })
	}
	s.ExpectNoForbiddenRequests(t)
	// An API server that has just started knows of nobody's rights for a moment.
	t.Run("22 API server away", func(t *testing.T) { runTest(t, s, "22 API server away", apiServerOutage) })
}

// runTest plays one test and writes down what it saw, also when it fails.
func runTest(t *testing.T, s *harness.Harness, name string, test func(*world, *report.Row)) {
	start, row := time.Now(), &report.Row{Test: name}
	t.Cleanup(func() {
		if t.Skipped() {
			return
		}
		if t.Failed() {
			row.Failed = max(row.Failed, 1)
		}
		row.Generated = max(row.Generated, row.Run)
		t.Logf("%s: %d of %d cases, %d failed: %s", name, row.Run, row.Generated, row.Failed, row.Measured)
		report.WriteTimed(t, start, *row)
	})
	test(&world{s.NewWorld(t)}, row)
}

// world is what a test plays in: a namespace. Its applications are called as the test likes.
type world struct{ *harness.World }

func (w *world) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// inNewNamespace is another namespace of the same test.
func (w *world) inNewNamespace() *world { return &world{w.NewWorld(w.T)} }

// forSubtest is the same world for a part of the test.
func (w *world) forSubtest(t *testing.T) *world { return &world{w.ForTest(t)} }

// createStack creates a stack.
func (w *world) createStack(name, spec string) *appsapi.AppStack {
	w.Helper()
	app := &appsapi.AppStack{ObjectMeta: w.objectMeta(name)}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	return app
}

func (w *world) getStack(name string) *appsapi.AppStack {
	return harness.Find(w.World, &appsapi.AppStack{ObjectMeta: w.objectMeta(name)})
}

func (w *world) getDeployment(name string) *appsv1.Deployment {
	return harness.Find(w.World, &appsv1.Deployment{ObjectMeta: w.objectMeta(name)})
}

func (w *world) waitReady(name string) {
	w.Helper()
	w.WaitReady(&appsapi.AppStack{ObjectMeta: w.objectMeta(name)})
}

// mergePatch sends a merge patch, which nobody else's edit can get in the way of.
func (w *world) mergePatch(obj client.Object, body string, args ...any) {
	w.Helper()
	w.Expect(w.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, body, args...)))).To(Succeed())
}

// setImages changes the images of components, and returns the stack as it is then.
func (w *world) setImages(name string, images map[string]string) *appsapi.AppStack {
	w.Helper()
	app := w.getStack(name)
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

// listObjects returns all objects of a kind in the namespace.
func listObjects[T client.Object](w *world, l client.ObjectList) []T {
	w.Helper()
	w.Expect(w.List(w.Context(), l, client.InNamespace(w.NS))).To(Succeed())
	var out []T
	w.Expect(meta.EachListItem(l, func(item runtime.Object) error {
		out = append(out, item.(T))
		return nil
	})).To(Succeed())
	return out
}

// runningPods are the UIDs of the pods that run, sorted. Those of jobs come and go by themselves.
func (w *world) runningPods() []string {
	w.Helper()
	var uids []string
	for _, pod := range listObjects[*corev1.Pod](w, &corev1.PodList{}) {
		if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && pod.DeletionTimestamp == nil {
			uids = append(uids, pod.Name+" "+string(pod.UID))
		}
	}
	slices.Sort(uids)
	return uids
}

// restartOperator brings the operator back after it was killed.
func (w *world) restartOperator() {
	w.Helper()
	w.Expect(w.Operator.Start()).To(Succeed())
	w.Expect(w.Operator.WaitReady(w.Context())).To(Succeed())
}

// longestSeconds returns the longest of some times, in seconds.
func longestSeconds(all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all).Seconds()
}
