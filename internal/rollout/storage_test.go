package rollout

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// database is a component with one volume of a size.
func database(size string, changes ...change) appsapi.Component {
	c := appsapi.Component{Name: "db", Stateful: &appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{Name: "data", MountPath: "/data", Size: resource.MustParse(size)}}}}
	c.Stateful.Image = "db:1"
	return changed(c, changes)
}

// claimOf is the claim of the first pod: what it asks for, and what it has.
func claimOf(asks, has string, changes ...func(*corev1.PersistentVolumeClaim)) desired.Kept {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-shop-db-0", Labels: map[string]string{
			"app.kubernetes.io/name": "stateful", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "db", "app.kubernetes.io/part-of": "shop",
			"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/owner-uid": "ours", "apps.holdfast.dev/owner-kind": "AppStack",
			"apps.holdfast.dev/workload": "statefulset-shop-db"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("standard"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asks)}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}},
	}
	for _, f := range changes {
		f(claim)
	}
	return desired.Kept{ID: desired.ID{Kind: desired.KindClaim, Name: claim.Name}, Object: claim, Claim: claim}
}

func ofClass(name string) change {
	return func(c *appsapi.Component) { c.Stateful.Storage[0].ClassName = &name }
}

func TestStorage(t *testing.T) {
	infeasible := func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInfeasible}
	}
	unbound := func(c *corev1.PersistentVolumeClaim) {
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	}
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }
	leaving := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &noon }
	cases := map[string]struct {
		made, now appsapi.Component // what the set was made for, and what the spec says
		claim     desired.Kept
		grow      string
		renew     bool
		reason    string
		says      string
	}{
		"as it is":                       {made: database("1Gi"), now: database("1Gi"), claim: claimOf("1Gi", "1Gi")},
		"in other words":                 {made: database("1Gi"), now: database("1024Mi"), claim: claimOf("1Gi", "1Gi")},
		"more was given than asked for":  {made: database("1Gi"), now: database("1Gi"), claim: claimOf("1Gi", "4Gi")},
		"more":                           {made: database("1Gi"), now: database("2Gi"), claim: claimOf("1Gi", "1Gi"), grow: "2Gi", reason: "StorageResizing", says: "grows from 1Gi to 2Gi"},
		"more, and it was asked for":     {made: database("1Gi"), now: database("2Gi"), claim: claimOf("2Gi", "1Gi"), renew: true, reason: "StorageResizing"},
		"more, and it is there":          {made: database("1Gi"), now: database("2Gi"), claim: claimOf("2Gi", "2Gi"), renew: true},
		"more, and the set knows":        {made: database("2Gi"), now: database("2Gi"), claim: claimOf("2Gi", "1Gi"), reason: "StorageResizing"},
		"not as much as before":          {made: database("1Gi"), now: database("4Gi"), claim: claimOf("8Gi", "1Gi"), grow: "4Gi", reason: "StorageResizing"},
		"back to what it has":            {made: database("1Gi"), now: database("1Gi"), claim: claimOf("8Gi", "1Gi"), reason: "StorageRefused", says: `Set the size of storage "data" to more than 1Gi`},
		"less":                           {made: database("2Gi"), now: database("1Gi"), claim: claimOf("2Gi", "2Gi"), reason: "StorageRefused", says: "cannot shrink to 1Gi"},
		"more than there is":             {made: database("8Gi"), now: database("8Gi"), claim: claimOf("8Gi", "1Gi", infeasible), reason: "StorageRefused", says: "cannot make PersistentVolumeClaim shop/data-shop-db-0 as large as 8Gi"},
		"another class":                  {made: database("1Gi"), now: database("2Gi", ofClass("fast")), claim: claimOf("1Gi", "1Gi"), reason: "StorageRefused", says: `made by StorageClass "standard" and cannot move to "fast"`},
		"the class said":                 {made: database("1Gi", ofClass("standard")), now: database("1Gi", ofClass("standard")), claim: claimOf("1Gi", "1Gi")},
		"the class no longer said":       {made: database("1Gi", ofClass("standard")), now: database("1Gi"), claim: claimOf("1Gi", "1Gi"), renew: true},
		"another class, without volume":  {made: database("1Gi", ofClass("typo")), now: database("1Gi", ofClass("fast")), claim: claimOf("1Gi", "0", unbound), renew: true, reason: "StorageRefused", says: "Nothing is on it"},
		"no volume yet":                  {made: database("1Gi"), now: database("1Gi"), claim: claimOf("1Gi", "0", unbound)},
		"the volume is gone":             {made: database("1Gi"), now: database("1Gi"), claim: claimOf("1Gi", "1Gi", lost), reason: "DataConflict", says: "is gone"},
		"the claim goes":                 {made: database("1Gi"), now: database("2Gi"), claim: claimOf("1Gi", "1Gi", leaving), reason: "DataConflict", says: "is being deleted"},
		"another access mode":            {made: database("1Gi"), now: database("1Gi", func(c *appsapi.Component) { c.Stateful.Storage[0].AccessMode = corev1.ReadWriteMany }), claim: claimOf("1Gi", "1Gi"), reason: "StorageRefused", says: "was made with the access mode ReadWriteOnce"},
		"another volume":                 {made: database("1Gi"), now: database("1Gi", func(c *appsapi.Component) { c.Stateful.Storage[0].Name = "other" }), claim: claimOf("1Gi", "1Gi"), reason: "StorageRefused", says: "have the volumes [data]"},
		"more, while pods are replaced":  {made: database("1Gi"), now: database("2Gi", func(c *appsapi.Component) { c.Stateful.Image = "db:2" }), claim: claimOf("2Gi", "2Gi")},
		"nothing, for none of its pods":  {made: database("1Gi"), now: database("2Gi", func(c *appsapi.Component) { c.Stateful.Replicas = new(int32(0)) }), claim: claimOf("1Gi", "1Gi"), renew: true},
		"of a pod that it has no longer": {made: database("1Gi"), now: database("1Gi", func(c *appsapi.Component) { c.Stateful.Replicas = new(int32(0)) }), claim: claimOf("2Gi", "2Gi")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kept := []desired.Kept{tc.claim}
			set := applied(desired.For(shop, stack(tc.made), desired.Known{Kept: kept})[0].Children[0], nil).(*appsv1.StatefulSet)
			plan, err := For(Input{Owner: shop, Components: desired.For(shop, stack(tc.now), desired.Known{Kept: kept}), Kept: kept, Seen: Seen{
				{Kind: desired.KindStatefulSet, Name: set.Name}: set}})
			must(err)
			d := plan.Steps[0].Data
			grow := ""
			for _, g := range d.Grow {
				grow += g.Size.String()
			}
			if grow != tc.grow || d.Renew != tc.renew {
				t.Errorf("grow to %q, made anew: %v; want %q and %v", grow, d.Renew, tc.grow, tc.renew)
			}
			verdict := health.Verdict{}
			if d.Verdict != nil {
				verdict = *d.Verdict
			}
			if verdict.Reason != tc.reason || !strings.Contains(verdict.Message, tc.says) {
				t.Errorf("got %s: %s, want %s: %s", verdict.Reason, verdict.Message, tc.reason, tc.says)
			}
			if len(d.Label) > 0 {
				t.Errorf("labels %v", d.Label)
			}
		})
	}
}
