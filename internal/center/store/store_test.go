package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const fieldNode Field = 1

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func nodeTerms(obj runtime.Object) []Term {
	return []Term{{fieldNode, obj.(*corev1.Pod).Spec.NodeName}}
}

func newPod(ns, name, node string, version int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + name), ResourceVersion: strconv.Itoa(version)}}
	p.SetGroupVersionKind(podKind)
	p.Spec.NodeName = node
	return p
}

// changeLog replays changes. The result must equal the store.
type changeLog map[string]*Entry

func (t changeLog) apply(changes []Change) {
	for _, c := range changes {
		if c.Before != nil {
			id := c.Before.Namespace + "/" + c.Before.Name
			if t[id] != c.Before {
				panic("change of an unexpected object: " + id)
			}
			delete(t, id)
		}
		if c.After != nil {
			t[c.After.Namespace+"/"+c.After.Name] = c.After
		}
	}
}

// TestStoreMatchesReference applies random operations and compares the store with a map.
func TestStoreMatchesReference(t *testing.T) {
	replayed, want := changeLog{}, map[string]*corev1.Pod{}
	s := New(nodeTerms, replayed.apply)
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	for version := range 20000 {
		ns, name, node := fmt.Sprint("ns", rng.IntN(3)), fmt.Sprint("pod", rng.IntN(20)), fmt.Sprint("node", rng.IntN(4))
		switch rng.IntN(20) {
		case 0: // replace a namespace, or all namespaces
			if rng.IntN(2) == 0 {
				ns = ""
			}
			maps.DeleteFunc(want, func(_ string, p *corev1.Pod) bool { return ns == "" || p.Namespace == ns })
			var all []runtime.Object
			for i := range rng.IntN(20) {
				podNamespace := ns
				if podNamespace == "" {
					podNamespace = fmt.Sprint("ns", rng.IntN(3))
				}
				p := newPod(podNamespace, fmt.Sprint("pod", i), node, version)
				all, want[podNamespace+"/"+p.Name] = append(all, p), p
			}
			s.Replace(podKind, ns, all)
		case 1, 2, 3, 4, 5:
			delete(want, ns+"/"+name)
			s.Delete(newPod(ns, name, "", version))
		default:
			p := newPod(ns, name, node, version)
			want[ns+"/"+name] = p
			s.Set(p)
		}
		if version%50 == 0 {
			assertMatches(t, s, replayed, want)
		}
	}
	assertMatches(t, s, replayed, want)
}

func assertMatches(t *testing.T, s *Store, replayed changeLog, want map[string]*corev1.Pod) {
	t.Helper()
	byNode, byNamespace := map[string][]string{}, map[string][]string{}
	for id, p := range want {
		byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], id)
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], id)
		if e := s.Get(podKind.GroupKind(), p.Namespace, p.Name); e == nil || e.Object != runtime.Object(p) || e != s.ByUID(p.UID) || e != replayed[id] {
			t.Fatalf("%s: %v, want %v", id, e, p)
		}
	}
	names := func(all []*Entry) []string {
		var out []string
		for _, e := range all {
			out = append(out, e.Namespace+"/"+e.Name)
		}
		slices.Sort(out)
		return out
	}
	sorted := func(all []string) []string { slices.Sort(all); return all }
	for i := range 4 {
		node := fmt.Sprint("node", i)
		if diff := cmp.Diff(sorted(byNode[node]), names(s.Find(Term{fieldNode, node}))); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", node, diff)
		}
		if s.Has(Term{fieldNode, node}) != (len(byNode[node]) > 0) {
			t.Fatal(node)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(byNode)), s.Terms(fieldNode)); diff != "" && len(byNode) > 0 {
		t.Fatalf("terms (-want +got):\n%s", diff)
	}
	for i := range 3 {
		ns := fmt.Sprint("ns", i)
		if diff := cmp.Diff(sorted(byNamespace[ns]), names(s.List(podKind.GroupKind(), ns))); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", ns, diff)
		}
	}
	if len(replayed) != len(want) || len(s.List(podKind.GroupKind(), "")) != len(want) || len(s.byUID) != len(want) {
		t.Fatalf("%d replayed, %d stored, %d by UID; want %d", len(replayed), len(s.List(podKind.GroupKind(), "")), len(s.byUID), len(want))
	}
	for kind, n := range s.Counts() {
		if n != len(want) {
			t.Fatalf("%d of %s", n, kind)
		}
	}
}

func TestUnchangedObjectsAreNotReported(t *testing.T) {
	var changes int
	s := New(nodeTerms, func(c []Change) { changes += len(c) })
	s.Set(newPod("ns", "a", "n", 1))
	s.Set(newPod("ns", "a", "n", 1))
	s.Replace(podKind, "", []runtime.Object{newPod("ns", "a", "n", 1)})
	s.Delete(newPod("ns", "b", "n", 1))
	if changes != 1 {
		t.Errorf("%d changes", changes)
	}
	if s.Get(schema.GroupKind{Kind: "Other"}, "ns", "a") != nil || s.List(schema.GroupKind{Kind: "Other"}, "") != nil {
		t.Error("found an object that does not exist")
	}
}

func TestUID(t *testing.T) {
	a, b := compactUID("8a7d1c2e-0000-4000-8000-0123456789ab"), compactUID("8a7d1c2e-0000-4000-8000-0123456789ac")
	x, again, y := compactUID("x"), compactUID("x"), compactUID("y")
	if a == b || x == y || x != again {
		t.Error("UIDs collide")
	}
}
