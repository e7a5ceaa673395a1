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

// database is a component with one volume of this size.
func database(size string, changes ...componentOption) testSpec {
	c := testSpec{Component: appsapi.Component{Name: "db", Stateful: &appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{Name: "data", MountPath: "/data", Size: resource.MustParse(size)}}}}}
	c.Stateful.Image = "db:1"
	return withOptions(c, changes)
}

// boundClaim is the claim of the first pod, with its request and capacity.
func boundClaim(requested, capacity string, changes ...func(*corev1.PersistentVolumeClaim)) desired.RetainedObject {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-shop-db-0", Labels: map[string]string{
			"app.kubernetes.io/name": "stateful", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "db", "app.kubernetes.io/part-of": "shop",
			"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/owner-uid": "ours", "apps.holdfast.dev/owner-kind": "AppStack",
			"apps.holdfast.dev/workload": "statefulset-shop-db"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("standard"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}},
	}
	for _, f := range changes {
		f(claim)
	}
	return desired.RetainedClaim(appsapi.DefaultKeys, claim)
}

func withStorageClass(name string) componentOption {
	return func(c *testSpec) { c.Stateful.Storage[0].ClassName = &name }
}

func statefulReplicas(n int32) componentOption {
	return func(c *testSpec) { c.Stateful.Replicas = &n }
}

func TestPlanStorage(t *testing.T) {
	infeasible := func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInfeasible}
	}
	unbound := func(c *corev1.PersistentVolumeClaim) {
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	}
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }
	ofSecondPod := func(c *corev1.PersistentVolumeClaim) { c.Name = "data-shop-db-1" }
	deleting := func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &noon }
	fromSnapshot := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "monday"}
	}
	clone := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "old"}
	}
	selectsVolume := func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }
	namesVolume := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "mine" }
	cases := map[string]struct {
		applied, now testSpec // the spec of the StatefulSet, and the current spec
		claim        desired.RetainedObject
		resize       string
		recreate     bool
		replace      bool
		reason       string
		message      string
	}{
		"unchanged":                          {applied: database("1Gi"), now: database("1Gi"), claim: boundClaim("1Gi", "1Gi")},
		"same size in another unit":          {applied: database("1Gi"), now: database("1024Mi"), claim: boundClaim("1Gi", "1Gi")},
		"capacity above the request":         {applied: database("1Gi"), now: database("1Gi"), claim: boundClaim("1Gi", "4Gi")},
		"larger":                             {applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "1Gi"), resize: "2Gi", reason: "StorageResizing", message: "from 1Gi to 2Gi"},
		"larger, requested":                  {applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("2Gi", "1Gi"), recreate: true, reason: "StorageResizing"},
		"larger, expanded":                   {applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("2Gi", "2Gi"), recreate: true},
		"larger, StatefulSet updated":        {applied: database("2Gi"), now: database("2Gi"), claim: boundClaim("2Gi", "1Gi"), reason: "StorageResizing"},
		"request reduced above the capacity": {applied: database("1Gi"), now: database("4Gi"), claim: boundClaim("8Gi", "1Gi"), resize: "4Gi", reason: "StorageResizing"},
		"request reduced to the capacity":    {applied: database("1Gi"), now: database("1Gi"), claim: boundClaim("8Gi", "1Gi"), reason: "StorageChangeRejected", message: `Set the size of storage "data" to more than 1Gi`},
		"smaller":                            {applied: database("2Gi"), now: database("1Gi"), claim: boundClaim("2Gi", "2Gi"), reason: "StorageChangeRejected", message: "cannot shrink to 1Gi"},
		"expansion infeasible":               {applied: database("8Gi"), now: database("8Gi"), claim: boundClaim("8Gi", "1Gi", infeasible), reason: "StorageChangeRejected", message: "cannot expand PersistentVolumeClaim shop/data-shop-db-0 to 8Gi"},
		"other class":                        {applied: database("1Gi"), now: database("2Gi", withStorageClass("fast")), claim: boundClaim("1Gi", "1Gi"), reason: "StorageChangeRejected", message: `uses StorageClass "standard", which cannot be changed to "fast"`},
		"same class":                         {applied: database("1Gi", withStorageClass("standard")), now: database("1Gi", withStorageClass("standard")), claim: boundClaim("1Gi", "1Gi")},
		"class removed from the spec":        {applied: database("1Gi", withStorageClass("standard")), now: database("1Gi"), claim: boundClaim("1Gi", "1Gi"), recreate: true},
		"other class, never bound":           {applied: database("1Gi", withStorageClass("typo")), now: database("1Gi", withStorageClass("fast")), claim: boundClaim("1Gi", "0", unbound), recreate: true, replace: true, reason: "Progressing", message: "Replacing PersistentVolumeClaim shop/data-shop-db-0, which was never bound"},
		"other class, never bound, StatefulSet updated": {
			applied: database("1Gi", withStorageClass("fast")), now: database("1Gi", withStorageClass("fast")), claim: boundClaim("1Gi", "0", unbound),
			replace: true, reason: "Progressing", message: "never bound",
		},
		"other class, never bound, during a rollout": {
			applied: database("1Gi", withStorageClass("typo")), now: database("1Gi", withStorageClass("fast"), func(c *testSpec) { c.Stateful.Image = "db:2" }),
			claim: boundClaim("1Gi", "0", unbound), reason: "Progressing", message: "never bound",
		},
		"class removed from the spec, never bound": {
			applied: database("1Gi", withStorageClass("standard")), now: database("1Gi"), claim: boundClaim("1Gi", "0", unbound),
			recreate: true, replace: true, reason: "Progressing", message: "never bound",
		},
		"other size, names a volume": {
			applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "0", unbound, namesVolume),
			recreate: true, reason: "StorageChangeRejected", message: "refers to a volume, a snapshot or another claim",
		},
		"other size, selects a volume": {
			applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "0", unbound, selectsVolume),
			recreate: true, reason: "StorageChangeRejected", message: "refers to a volume, a snapshot or another claim",
		},
		"other size, restored from a snapshot": {
			applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "0", unbound, fromSnapshot),
			recreate: true, reason: "StorageChangeRejected", message: "refers to a volume, a snapshot or another claim",
		},
		"other size, clone of another claim": {
			applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "0", unbound, clone),
			recreate: true, reason: "StorageChangeRejected", message: "refers to a volume, a snapshot or another claim",
		},
		"never bound, being deleted": {applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "0", unbound, deleting), recreate: true, reason: "Progressing", message: "never bound"},
		"declared class, not bound":  {applied: database("1Gi", withStorageClass("standard")), now: database("1Gi", withStorageClass("standard")), claim: boundClaim("1Gi", "0", unbound)},
		"not bound":                  {applied: database("1Gi"), now: database("1Gi"), claim: boundClaim("1Gi", "0", unbound)},
		"volume lost":                {applied: database("1Gi"), now: database("1Gi"), claim: boundClaim("1Gi", "1Gi", lost), reason: "DataConflict", message: "has lost its volume"},
		"claim is being deleted":     {applied: database("1Gi"), now: database("2Gi"), claim: boundClaim("1Gi", "1Gi", deleting), reason: "DataConflict", message: "is being deleted"},
		"other access mode":          {applied: database("1Gi"), now: database("1Gi", func(c *testSpec) { c.Stateful.Storage[0].AccessMode = corev1.ReadWriteMany }), claim: boundClaim("1Gi", "1Gi"), reason: "StorageChangeRejected", message: "has access mode ReadWriteOnce"},
		"other volume":               {applied: database("1Gi"), now: database("1Gi", func(c *testSpec) { c.Stateful.Storage[0].Name = "other" }), claim: boundClaim("1Gi", "1Gi"), reason: "StorageChangeRejected", message: "has the volumes [data]"},
		"larger, during a rollout":   {applied: database("1Gi"), now: database("2Gi", func(c *testSpec) { c.Stateful.Image = "db:2" }), claim: boundClaim("2Gi", "2Gi")},
		"larger, no replicas":        {applied: database("1Gi"), now: database("2Gi", func(c *testSpec) { c.Stateful.Replicas = new(int32(0)) }), claim: boundClaim("1Gi", "1Gi"), recreate: true},
		"claim of a removed pod":     {applied: database("1Gi"), now: database("1Gi", func(c *testSpec) { c.Stateful.Replicas = new(int32(0)) }), claim: boundClaim("2Gi", "2Gi")},
		"larger, claim of a pod that was scaled up": {
			applied: database("1Gi", statefulReplicas(2)), now: database("2Gi"), claim: boundClaim("1Gi", "1Gi", ofSecondPod),
			resize: "2Gi", reason: "StorageResizing", message: "Expanding PersistentVolumeClaim shop/data-shop-db-1 from 1Gi to 2Gi",
		},
		"larger, claim of a pod that does not exist": {
			applied: database("1Gi", statefulReplicas(1)), now: database("2Gi"), claim: boundClaim("1Gi", "1Gi", ofSecondPod), recreate: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			retained := []desired.RetainedObject{tc.claim}
			set := appliedChild(desired.Build(shop, expand(stack(tc.applied)), desired.ClusterState{Retained: retained})[0].Children[0], nil).(*appsv1.StatefulSet)
			plan, err := NewPlan(Input{Owner: shop, Components: desired.Build(shop, expand(stack(tc.now)), desired.ClusterState{Retained: retained}), Retained: retained, Observed: Observed{
				{Kind: desired.KindStatefulSet, Name: set.Name}: set}})
			must(err)
			d := plan.Steps[0].Data
			grow := ""
			for _, g := range d.ResizeClaims {
				grow += g.Size.String()
			}
			if grow != tc.resize || d.RecreateStatefulSet != tc.recreate {
				t.Errorf("resize to %q, recreate %v; want %q and %v", grow, d.RecreateStatefulSet, tc.resize, tc.recreate)
			}
			if replaced := len(d.ReplaceClaims) > 0; replaced != tc.replace {
				t.Errorf("claim is replaced: %v, want %v", replaced, tc.replace)
			}
			verdict := health.Result{}
			if d.Health != nil {
				verdict = *d.Health
			}
			if verdict.Reason != tc.reason || !strings.Contains(verdict.Message, tc.message) {
				t.Errorf("got %s: %s, want %s: %s", verdict.Reason, verdict.Message, tc.reason, tc.message)
			}
			if len(d.Relabel) > 0 {
				t.Errorf("labels %v", d.Relabel)
			}
		})
	}
}
