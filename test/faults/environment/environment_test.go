// Package environment tests the operator under adverse conditions: other clients write to its objects, the API server is
// down, policies reject writes, leaders are killed. Checks use the audit log and separate watches.
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

var shared = &harness.Shared{Behavior: harness.BehaviorByTag(behaviors), Operator: operator.Options{NoRace: true}}

func TestMain(m *testing.M) { harness.Main(m, shared) }

// longRun selects full test durations: HOLDFAST_LONG=1 go test ./test/faults/environment.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// sampleOrFull returns the short or the full duration of a test.
func sampleOrFull(sampleTime, fullTime time.Duration) time.Duration {
	if longRun {
		return fullTime
	}
	return sampleTime
}

// behaviors maps image tags to pod behaviors.
var behaviors = map[string]podsim.Behavior{
	"never": podsim.NeverReady(),
}

// newWorld returns a namespace on the shared operator and the report row of the test. The test runs in parallel with
// others.
func newWorld(t *testing.T, name string) (*world, *report.Row) {
	t.Helper()
	if !longRun {
		t.Parallel() // long runs would affect each other's measurements
	}
	row := newRow(t, name)
	return &world{shared.NewWorld(t)}, row
}

// newWorldAlone is [newWorld] for a test that stops its operator or API server: it has its own, and runs alone.
func newWorldAlone(t *testing.T, name string) (*world, *report.Row) {
	t.Helper()
	row := newRow(t, name)
	return &world{harness.New(t, shared.Behavior, shared.Operator).NewWorld(t)}, row
}

// newRow returns the report row of a test. It is written at the end, even after a failure.
func newRow(t *testing.T, name string) *report.Row {
	t.Helper()
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
	return row
}

// world is the namespace of a test.
type world struct{ *harness.World }

func (w *world) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// inNewNamespace returns another namespace of the same test.
func (w *world) inNewNamespace() *world { return &world{w.NewWorld(w.T)} }

// forSubtest returns the same namespace for a subtest.
func (w *world) forSubtest(t *testing.T) *world { return &world{w.ForTest(t)} }

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

// mergePatch sends a merge patch, which cannot conflict with other edits.
func (w *world) mergePatch(obj client.Object, body string, args ...any) {
	w.Helper()
	w.Expect(w.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, body, args...)))).To(Succeed())
}

// setImages changes the images of components and returns the new stack.
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

// runningPods returns the sorted UIDs of running pods, without pods of jobs.
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

// restartOperator starts the operator again after it was killed.
func (w *world) restartOperator() {
	w.Helper()
	w.Expect(w.Operator.Start()).To(Succeed())
	w.Expect(w.Operator.WaitReady(w.Context())).To(Succeed())
}

func longestSeconds(all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all).Seconds()
}
