package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// What is kept of a component is told once and whole, however many visits it takes to mark it.
func TestKeptNow(t *testing.T) {
	kept := func(kind schema.GroupVersionKind, name, component string) desired.Kept {
		labels := map[string]string{appsapi.LabelComponent: component}
		return desired.Kept{ID: desired.ID{Kind: kind, Name: name}, Object: &metav1.ObjectMeta{Labels: labels}}
	}
	claim, secret := kept(desired.KindClaim, "data-shop-db-0", "db"), kept(desired.KindSecret, "shop-db-auth", "db")
	older := kept(desired.KindClaim, "data-shop-queue-0", "queue")
	all := []desired.Kept{claim, older, secret}
	marks := func(kept ...desired.Kept) []rollout.Labels {
		var out []rollout.Labels
		for _, k := range kept {
			out = append(out, rollout.Labels{Kept: k})
		}
		return out
	}
	cases := map[string]struct {
		marked []rollout.Labels
		failed map[desired.ID]error
		want   []string
	}{
		"all at once":                    {marked: marks(claim, secret), want: []string{claim.Name, secret.Name}},
		"the claim was changed meantime": {marked: marks(claim, secret), failed: map[desired.ID]error{claim.ID: apply.ErrStale}},
		"the Secret was":                 {marked: marks(claim, secret), failed: map[desired.ID]error{secret.ID: apply.ErrStale}},
		"the rest of it":                 {marked: marks(claim), want: []string{claim.Name, secret.Name}},
		"nothing new":                    {},
		"another one fails": {marked: marks(claim, secret, older), failed: map[desired.ID]error{older.ID: apply.ErrStale},
			want: []string{claim.Name, secret.Name}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range keptNow(tc.marked, tc.failed, all) {
				got = append(got, c.child.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
