package revision

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestRoundTrip reads a stored spec.
func TestRoundTrip(t *testing.T) {
	spec := map[string]any{"components": strings.Repeat("a component. ", 1000)}
	s, err := Encode(spec)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 500 {
		t.Errorf("13 kB of repeated text are compressed to %d bytes", len(data))
	}
	r := &appsv1.ControllerRevision{}
	r.Data.Raw = data
	got, err := Read(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(s.content), string(got)); diff != "" {
		t.Error(diff)
	}
	same, _ := Encode(map[string]any{"components": spec["components"]})
	other, _ := Encode(map[string]any{"components": "b"})
	if same.Hash != s.Hash || other.Hash == s.Hash || len(s.Hash) != 10 {
		t.Errorf("got hashes %q, %q, %q", s.Hash, same.Hash, other.Hash)
	}
}

func TestReadRejectsInvalidData(t *testing.T) {
	for name, raw := range map[string]string{
		"not JSON": `{`, "not compressed": `{"gzip":"aGVsbG8="}`,
		"cut off": `{"gzip":"H4sIAAAAAAAA/w=="}`,
	} {
		r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1"}}
		r.Data.Raw = []byte(raw)
		if _, err := Read(r); err == nil || !strings.HasPrefix(err.Error(), "read ControllerRevision shop/shop-1: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func revision(name string, number int64, healthy bool) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Revision: number}
	if healthy {
		r.Annotations = map[string]string{"apps.holdfast.dev/revision-healthy": "true"}
	}
	return r
}

func TestNewPlan(t *testing.T) {
	cases := map[string]struct {
		revisions []*appsv1.ControllerRevision
		limit     int
		want      string
	}{
		"first revision":                             {nil, 10, "current none, number 1, healthy none, forget []"},
		"unchanged spec":                             {[]*appsv1.ControllerRevision{revision("now", 3, true)}, 10, "current now, number 3, healthy now, forget []"},
		"new spec":                                   {[]*appsv1.ControllerRevision{revision("a", 1, true), revision("b", 2, false)}, 10, "current none, number 3, healthy a, forget []"},
		"earlier spec":                               {[]*appsv1.ControllerRevision{revision("now", 1, true), revision("b", 2, false)}, 10, "current now, number 3, healthy now, forget []"},
		"beyond the limit":                           {[]*appsv1.ControllerRevision{revision("a", 1, false), revision("b", 2, false), revision("c", 3, true), revision("now", 4, false)}, 2, "current now, number 4, healthy c, forget [a b]"},
		"healthy revision beyond the limit":          {[]*appsv1.ControllerRevision{revision("a", 1, true), revision("b", 2, false), revision("now", 3, false)}, 1, "current now, number 3, healthy a, forget [b]"},
		"limit includes the new revision":            {[]*appsv1.ControllerRevision{revision("a", 1, true), revision("b", 2, true)}, 2, "current none, number 3, healthy b, forget [a]"},
		"two with the same number":                   {[]*appsv1.ControllerRevision{revision("now", 2, false), revision("b", 2, false)}, 10, "current now, number 3, healthy none, forget []"},
		"two with the same number, other name later": {[]*appsv1.ControllerRevision{revision("now", 2, false), revision("z", 2, false)}, 10, "current now, number 3, healthy none, forget []"},
		"only the applied spec":                      {[]*appsv1.ControllerRevision{revision("now", 1, false)}, 1, "current now, number 1, healthy none, forget []"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := NewPlan(appsapi.DefaultKeys, "now", tc.revisions, tc.limit)
			nameOf := func(r *appsv1.ControllerRevision) string {
				if r == nil {
					return "none"
				}
				return r.Name
			}
			pruned := []string{}
			for _, r := range p.Prune {
				pruned = append(pruned, r.Name)
			}
			got := fmt.Sprintf("current %s, number %d, healthy %s, forget %v", nameOf(p.Current), p.Number, nameOf(p.Healthy), pruned)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestReplace(t *testing.T) {
	a, b, c, after := revision("a", 1, true), revision("b", 2, false), revision("c", 3, true), revision("a", 4, true)
	p := Plan{Current: a, Healthy: a, Prune: []*appsv1.ControllerRevision{b, a}}
	p.Replace(c, after)
	if p.Current != a || p.Healthy != a || p.Prune[1] != a {
		t.Error("another revision was replaced")
	}
	p.Replace(a, after)
	if p.Current != after || p.Healthy != after || p.Prune[0] != b || p.Prune[1] != after {
		t.Errorf("got %v", p)
	}
}
