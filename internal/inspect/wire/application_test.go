package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

func TestHiddenKindsAreReported(t *testing.T) {
	pod := explain.ObjectRef{Kind: "Pod", Name: "web-1"}
	set := explain.ObjectRef{Kind: "ReplicaSet", Name: "web-0"}
	web := explain.ObjectRef{Kind: "Deployment", Name: "web"}
	gadget := explain.ObjectRef{Group: "example.com", Kind: "Gadget", Name: "g"}
	cause := explain.Cause{Code: explain.CrashLoop, Object: pod, Message: "it crashes"}
	v := inspect.View{
		Kind: "AppStack", Namespace: "demo", Name: "shop", Causes: []explain.Cause{cause}, Changes: []inspect.Change{{Object: web, Manager: "kubectl"}, {Object: gadget, Manager: "helm"}},
		Components: []inspect.Component{{Name: "web", Causes: []explain.Cause{cause}, Tree: []inspect.Node{
			{Object: web, Children: []inspect.Node{{Object: set, Edge: inspect.EdgeOwner, Children: []inspect.Node{{Object: pod, Edge: inspect.EdgeOwner}}}}}}}},
		Unassigned: []inspect.Node{{Object: gadget}},
	}
	names := func(all []Node) (out []string) {
		var walk func(string, []Node)
		walk = func(indent string, all []Node) {
			for _, n := range all {
				out = append(out, indent+n.Kind)
				walk(indent+" ", n.Children)
			}
		}
		walk("", all)
		return out
	}
	cases := map[string]struct {
		hide         []string
		tree, hidden []string
		causes       int
		changes      int
	}{
		"everything": {tree: []string{"Deployment", " ReplicaSet", "  Pod"}, causes: 1, changes: 2},
		"no pods":    {hide: []string{"Pod"}, tree: []string{"Deployment", " ReplicaSet"}, hidden: []string{"Pod"}, changes: 2},
		"no ReplicaSets": {hide: []string{"ReplicaSet"}, tree: []string{"Deployment", " Pod"}, hidden: []string{"ReplicaSet"}, causes: 1,
			changes: 2},
		"almost nothing": {hide: []string{"Pod", "ReplicaSet", "Deployment", "Gadget"},
			hidden: []string{"Deployment", "Gadget", "Pod", "ReplicaSet"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := NewApplication(v, func(o explain.ObjectRef) bool {
				for _, k := range tc.hide {
					if o.Kind == k {
						return false
					}
				}
				return true
			})
			if diff := cmp.Diff(tc.tree, names(a.Components[0].Tree)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.hidden, a.HiddenKinds); diff != "" {
				t.Errorf("hidden (-want +got):\n%s", diff)
			}
			if len(a.Causes) != tc.causes || len(a.Components[0].Causes) != tc.causes || len(a.Changes) != tc.changes {
				t.Errorf("%d causes, %d changes", len(a.Causes), len(a.Changes))
			}
		})
	}
}
