package execute

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

// TestNewlyRetainedIsReportedOnce checks that the retained data of a component is reported once and
// completely, even if labeling it takes several reconciles.
func TestNewlyRetainedIsReportedOnce(t *testing.T) {
	retained := func(kind schema.GroupVersionKind, name, component string) desired.RetainedObject {
		labels := map[string]string{appsapi.LabelComponent: component}
		return desired.RetainedObject{ID: desired.ID{Kind: kind, Name: name}, Object: &metav1.ObjectMeta{Labels: labels}}
	}
	claim, secret := retained(desired.KindClaim, "data-shop-db-0", "db"), retained(desired.KindSecret, "shop-db-auth", "db")
	other := retained(desired.KindClaim, "data-shop-queue-0", "queue")
	all := []desired.RetainedObject{claim, other, secret}
	labelsFor := func(retained ...desired.RetainedObject) []rollout.LabelUpdate {
		var out []rollout.LabelUpdate
		for _, k := range retained {
			out = append(out, rollout.LabelUpdate{RetainedObject: k})
		}
		return out
	}
	cases := map[string]struct {
		marked []rollout.LabelUpdate
		errs   map[desired.ID]error
		want   []string
	}{
		"all at once":              {marked: labelsFor(claim, secret), want: []string{claim.Name, secret.Name}},
		"claim changed meanwhile":  {marked: labelsFor(claim, secret), errs: map[desired.ID]error{claim.ID: apply.ErrStale}},
		"Secret changed meanwhile": {marked: labelsFor(claim, secret), errs: map[desired.ID]error{secret.ID: apply.ErrStale}},
		"last object labeled":      {marked: labelsFor(claim), want: []string{claim.Name, secret.Name}},
		"nothing new":              {},
		"other component fails": {marked: labelsFor(claim, secret, other), errs: map[desired.ID]error{other.ID: apply.ErrStale},
			want: []string{claim.Name, secret.Name}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range newlyRetained(tc.marked, tc.errs, all) {
				got = append(got, c.Child.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
