package rollout

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func stateful(name string) testSpec {
	c := testSpec{Component: appsapi.Component{Name: name, Stateful: &appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{Name: "data", MountPath: "/data", Size: resource.MustParse("1Gi")}}}}}
	c.Stateful.Image = name + ":1"
	return c
}

// adoptableClaim is the claim of another stack, released with the adopt annotation.
func adoptableClaim() desired.RetainedObject {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-shop-db-0",
		Annotations: map[string]string{"apps.holdfast.dev/adopt": "true"},
		Labels: map[string]string{
			"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "statefulset-shop-db",
			"app.kubernetes.io/instance": "other", "app.kubernetes.io/component": "db",
			"apps.holdfast.dev/owner-kind": "AppStack", "apps.holdfast.dev/owner-uid": "theirs",
		}}}
	return desired.RetainedClaim(appsapi.DefaultKeys, claim)
}

func TestDataInUseIsNotRelabeled(t *testing.T) {
	set := func(owner types.UID, adopt string) Observed {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-db",
			OwnerReferences: []metav1.OwnerReference{{Kind: "AppStack", Name: "other", UID: owner, Controller: new(true)}}}}
		if adopt != "" {
			s.Annotations = map[string]string{"apps.holdfast.dev/adopt": adopt}
		}
		return Observed{desired.ID{Kind: desired.KindStatefulSet, Name: "shop-db"}: s}
	}
	for name, tc := range map[string]struct {
		observed   Observed
		wantLabels int
	}{
		"no StatefulSet exists":                                {Observed{}, 1},
		"another owner's StatefulSet uses it":                  {set("theirs", ""), 0},
		"another owner's StatefulSet has the adopt annotation": {set("theirs", "true"), 1},
		"our StatefulSet uses it":                              {set("ours", ""), 1},
		"StatefulSet of a deleted stack uses it":               {set("before", ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			retained := []desired.RetainedObject{adoptableClaim()}
			plan, err := NewPlan(Input{Owner: shop, Components: desired.Build(shop, expand(stack(stateful("db"))), desired.ClusterState{Retained: retained}), Observed: tc.observed, Retained: retained})
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Steps[0].Data; len(got.Relabel) != tc.wantLabels || got.CreateSecret {
				t.Errorf("want %d claims labeled, got %+v", tc.wantLabels, got)
			}
		})
	}
}
