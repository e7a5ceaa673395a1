package apply

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestSettled makes the wish for a child anew only when what it is made from has changed, or
// the child.
func TestSettled(t *testing.T) {
	const basis = 7
	cases := map[string]struct {
		basis           uint64
		uid             string
		resourceVersion string
		holdPods        bool
		then            func(*memory)
		want            bool
	}{
		"nothing changed":             {basis: basis, resourceVersion: "100", want: true},
		"the spec changed":            {basis: 8, resourceVersion: "100"},
		"the child changed":           {basis: basis, resourceVersion: "101"},
		"another child of its name":   {basis: basis, uid: "b", resourceVersion: "100"},
		"its pods have to wait":       {basis: basis, resourceVersion: "100", holdPods: true},
		"nobody knows the basis":      {basis: 0, resourceVersion: "100"},
		"another wish was made since": {basis: basis, resourceVersion: "100", then: func(m *memory) { m.noteSame(webKey, us, wish(t, "httpd"), seen("a", "100", 1), projection{}) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := New(nil, nil, nil, newClock())
			a.memory.noteSame(webKey, us, wish(t, "nginx"), seen("a", "100", 1), projection{})
			a.memory.settle(webKey, us, basis)
			if tc.then != nil {
				tc.then(&a.memory)
			}
			live := seen("a", tc.resourceVersion, 1)
			if tc.uid != "" {
				live = seen("b", tc.resourceVersion, 1)
			}
			owner := desired.Owner{Kind: "AppService", Namespace: "shop", Name: "web", UID: us}
			live.OwnerReferences = append(live.OwnerReferences, *metav1.NewControllerRef(&metav1.ObjectMeta{UID: us, Name: "web"}, desired.KindDeployment))
			made := false
			child := desired.Child{ID: webKey.ID, Basis: tc.basis, Render: func(runtime.Object) (*desired.Config, error) {
				made = true
				return nil, &desired.Refusal{Why: "far enough"}
			}}
			_, err := a.update(context.Background(), owner, child, live, how{holdPods: tc.holdPods})
			if made == tc.want || tc.want && err != nil {
				t.Errorf("the wish was made: %t (%v), want %t", made, err, !tc.want)
			}
		})
	}
}
