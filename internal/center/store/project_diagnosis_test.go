package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// TestProjectionPreservesDiagnosis compares the diagnosis of complete objects, recorded in clusters with problems,
// with the diagnosis of their projections.
func TestProjectionPreservesDiagnosis(t *testing.T) {
	files, err := filepath.Glob("../../explain/testdata/causes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var f struct {
				Now     time.Time         `json:"now"`
				Absent  []explain.Ref     `json:"absent"`
				Whole   []string          `json:"whole"`
				Objects []json.RawMessage `json:"objects"`
			}
			if err := yaml.Unmarshal(content, &f); err != nil {
				t.Fatal(err)
			}
			p := NewProjector(nil)
			full := explain.Snapshot{MissingRefs: f.Absent, CompleteKinds: f.Whole}
			projected := full
			for _, raw := range f.Objects {
				obj := decode(t, raw)
				stripped := p.Project(obj.DeepCopyObject())
				full.Add(obj)
				projected.Add(stripped)
				if diff := cmp.Diff(observedFacts(obj), observedFacts(stripped)); diff != "" {
					t.Errorf("%T (-whole +kept):\n%s", obj, diff)
				}
			}
			if diff := cmp.Diff(explain.Explain(full, f.Now), explain.Explain(projected, f.Now)); diff != "" {
				t.Errorf("diagnosis (-complete +projected):\n%s", diff)
			}
		})
	}
}

// TestProjectionKeepsContainerPorts checks that a Service with a named target port has no cause.
func TestProjectionKeepsContainerPorts(t *testing.T) {
	labels := map[string]string{"app": "web"}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	var s explain.Snapshot
	s.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}}})
	s.Add(&appsv1.Deployment{})
	s.Add(NewProjector(nil).Project(p))
	if a := explain.Explain(s, time.Now()); len(a.Causes) > 0 {
		t.Errorf("causes: %v", a.Causes)
	}
}

func decode(t *testing.T, raw []byte) runtime.Object {
	t.Helper()
	obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		u := &unstructured.Unstructured{}
		obj, err = u, u.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// observedFacts contains the facts that are derived from a single object.
func observedFacts(obj runtime.Object) []any {
	o := obj.(metav1.Object)
	kind, namespace, name, member := inspect.Membership(o)
	return []any{health.Evaluate(obj), inspect.References(obj), inspect.Images(obj), o.GetLabels(), o.GetOwnerReferences(), o.GetUID(), o.GetCreationTimestamp(), kind, namespace, name, member}
}

func TestProjectedObjectsShareStrings(t *testing.T) {
	p := NewProjector(nil)
	pods := make([]*corev1.Pod, 2)
	for i := range pods {
		label := strings.Clone("web")
		pods[i] = p.Project(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Clone("shop"), Labels: map[string]string{strings.Clone("app"): label}}}).(*corev1.Pod)
	}
	same := func(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }
	key := func(m map[string]string) string { return reflect.ValueOf(m).MapKeys()[0].String() }
	a, b := pods[0], pods[1]
	if !same(a.Namespace, b.Namespace) || reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
		t.Error("equal strings or labels are not shared")
	}
	other := p.Project(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{strings.Clone("app"): strings.Clone("shop")}}}).(*corev1.Pod)
	if !same(key(other.Labels), key(a.Labels)) || !same(other.Labels["app"], a.Namespace) {
		t.Error("strings of different labels are not shared")
	}
	custom := p.Project(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": strings.Clone("shop")}, "status": []any{strings.Clone("web")}}}).(*unstructured.Unstructured)
	if !same(custom.GetNamespace(), a.Namespace) || !same(custom.Object["status"].([]any)[0].(string), a.Labels["app"]) {
		t.Error("strings of an unstructured object are not shared")
	}
}

func TestProjectedRequestsAreShared(t *testing.T) {
	p := NewProjector(nil)
	requests := func(cpu string) corev1.ResourceList {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		return p.Project(d).(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Resources.Requests
	}
	one, same, other := requests("250m"), requests("250m"), requests("251m")
	if reflect.ValueOf(one).Pointer() != reflect.ValueOf(same).Pointer() {
		t.Error("equal requests are not shared")
	}
	if got := other[corev1.ResourceCPU]; got.String() != "251m" {
		t.Errorf("different requests became %s", got.String())
	}
}

func TestInternerIsBounded(t *testing.T) {
	p := newInterner()
	for i := range 3 * maxInterned {
		p.internString(strings.Repeat("x", i%maxInternedLength) + time.Duration(i).String())
	}
	if len(p.strings) == 0 || len(p.strings) > maxInterned {
		t.Errorf("got %d strings", len(p.strings))
	}
}

func TestPosting(t *testing.T) {
	var p posting
	entries := make([]*Entry, 3*maxSmallPosting)
	for i := range entries {
		entries[i] = &Entry{ResourceVersion: uint64(i)}
		p.add(entries[i])
		p.add(entries[i]) // adding twice has no effect
		if got := len(p.all()); got != i+1 {
			t.Fatalf("%d entries, want %d", got, i+1)
		}
	}
	for i, e := range entries {
		if last := p.remove(e); last != (i == len(entries)-1) || len(p.all()) != len(entries)-i-1 {
			t.Fatalf("%d entries after %d removals, reported empty: %t", len(p.all()), i+1, last)
		}
	}
}
