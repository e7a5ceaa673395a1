package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func withCredentials(c *testSpec) {
	c.Stateful.Credentials = []appsapi.Credential{{Key: "password"}}
}

// authSecret is the Secret of the database, with the labels of its claim.
func authSecret(claim desired.RetainedObject) desired.RetainedObject {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: *claim.Claim.ObjectMeta.DeepCopy()}
	meta.Name = "shop-db-auth"
	return desired.RetainedSecret(appsapi.DefaultKeys, meta)
}

// restoredSecret returns the credentials as users create them.
func restoredSecret(claim desired.RetainedObject, adopt string) desired.RetainedObject {
	secret := authSecret(claim)
	secret.SetLabels(nil)
	secret.SetAnnotations(map[string]string{appsapi.DefaultKeys.Adopt: adopt})
	return secret
}

func withLabel(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		if c.Labels[key] = value; value == "" {
			delete(c.Labels, key)
		}
	}
}

// planDataActions returns the planned actions on data for a spec and retained data.
func planDataActions(spec []testSpec, retained []desired.RetainedObject, observed Observed, purge bool) (first *DataPlan, actions []string) {
	plan, err := NewPlan(Input{Owner: shop, Components: desired.Build(shop, expand(spec), desired.ClusterState{Retained: retained}), Retained: retained, Observed: observed, DeleteData: purge})
	must(err)
	for _, s := range plan.Steps {
		if s.Data == nil {
			continue
		}
		if first == nil {
			first = s.Data
		}
		for _, l := range s.Data.Relabel {
			actions = append(actions, "label "+l.Name)
		}
		if s.Data.CreateSecret {
			actions = append(actions, "create credentials")
		}
		for _, name := range s.Data.NewClaims {
			actions = append(actions, "check claim "+name)
		}
		if slices.ContainsFunc(s.Apply, func(a ChildApply) bool { return a.Kind == desired.KindStatefulSet }) {
			actions = append(actions, "apply")
		}
	}
	for _, l := range plan.Retain {
		actions = append(actions, "retain "+l.Name)
	}
	for _, k := range plan.Purge {
		actions = append(actions, "purge "+k.Name)
	}
	return first, actions
}

func TestPlanData(t *testing.T) {
	claim := boundClaim("1Gi", "1Gi")
	claimWith := func(changes ...func(*corev1.PersistentVolumeClaim)) desired.RetainedObject {
		return boundClaim("1Gi", "1Gi", changes...)
	}
	db, other := database("1Gi", withCredentials), service("web", "1")
	renamed := database("1Gi", withCredentials, renamedFrom("db"))
	renamed.Name = "database"
	renamedSilently := database("1Gi", withCredentials)
	renamedSilently.Name = "database"
	running := liveObjects(database("1Gi"))
	cases := map[string]struct {
		spec     testSpec
		retained []desired.RetainedObject
		observed Observed
		purge    bool
		want     []string
		reason   string
	}{
		"new":                           {spec: db, want: []string{"create credentials", "check claim data-shop-db-0", "apply"}},
		"without credentials":           {spec: database("1Gi"), want: []string{"check claim data-shop-db-0", "apply"}},
		"existing data":                 {spec: db, retained: []desired.RetainedObject{claim, authSecret(claim)}, want: []string{"apply"}},
		"retained data":                 {spec: db, retained: []desired.RetainedObject{claimWith(withLabel(appsapi.DefaultKeys.Retained, "true")), authSecret(claim)}, want: []string{"label data-shop-db-0", "apply"}},
		"data of a deleted application": {spec: db, retained: []desired.RetainedObject{claimWith(withLabel(appsapi.DefaultKeys.OwnerUID, "theirs")), authSecret(claim)}, want: []string{"label data-shop-db-0", "apply"}},
		"new claim without labels":      {spec: db, retained: []desired.RetainedObject{claimWith(withLabel(appsapi.LabelInstance, ""), withLabel(appsapi.LabelComponent, ""), withLabel(appsapi.DefaultKeys.OwnerKind, "")), authSecret(claim)}, observed: running, want: []string{"label data-shop-db-0", "apply"}},
		"renamed":                       {spec: renamed, retained: []desired.RetainedObject{claim, authSecret(claim)}, observed: running, want: []string{"label data-shop-db-0", "label shop-db-auth", "apply"}},
		"credentials are lost":          {spec: db, retained: []desired.RetainedObject{claim}, reason: "CredentialsLost"},
		"credentials are lost while the database runs": {spec: db, retained: []desired.RetainedObject{claim}, observed: running, want: []string{"apply"}, reason: "CredentialsLost"},
		"restored credentials":                         {spec: db, retained: []desired.RetainedObject{claim, restoredSecret(claim, "")}, observed: running, want: []string{"apply"}, reason: "CredentialsLost"},
		"restored credentials that may be used":        {spec: db, retained: []desired.RetainedObject{claim, restoredSecret(claim, "true")}, want: []string{"label shop-db-auth", "apply"}},
		"credentials without data":                     {spec: db, retained: []desired.RetainedObject{authSecret(claim)}, want: []string{"check claim data-shop-db-0", "apply"}},
		"another volume":                               {spec: database("1Gi", func(c *testSpec) { c.Stateful.Storage[0].Name = "other" }), retained: []desired.RetainedObject{claim}, reason: "DataConflict"},
		"rename without renamedFrom":                   {spec: renamedSilently, retained: []desired.RetainedObject{claim, authSecret(claim)}, want: []string{"retain data-shop-db-0", "retain shop-db-auth"}, reason: "DataConflict"},
		"rename without renamedFrom, to purge":         {spec: renamedSilently, retained: []desired.RetainedObject{claim, authSecret(claim)}, purge: true, reason: "DataConflict"},
		"removed from the spec, but running":           {spec: other, retained: []desired.RetainedObject{claim, authSecret(claim)}, observed: running},
		"removed from the spec":                        {spec: other, retained: []desired.RetainedObject{claim, authSecret(claim)}, want: []string{"retain data-shop-db-0", "retain shop-db-auth"}},
		"running without claims, data of a removed component exists": {
			spec: database("1Gi"), observed: running, want: []string{"apply", "check claim data-shop-db-0", "retain data-shop-old-0"},
			retained: []desired.RetainedObject{claimWith(withLabel(appsapi.LabelComponent, "old"), withLabel(appsapi.DefaultKeys.Workload, "statefulset-shop-old"),
				func(c *corev1.PersistentVolumeClaim) { c.Name = "data-shop-old-0" })},
		},
		"removed from the spec earlier":           {spec: other, retained: []desired.RetainedObject{claimWith(withLabel(appsapi.DefaultKeys.Retained, "true"))}},
		"removed from the spec, to purge":         {spec: other, retained: []desired.RetainedObject{claim, authSecret(claim)}, purge: true, want: []string{"purge data-shop-db-0"}},
		"the data is purged":                      {spec: other, retained: []desired.RetainedObject{authSecret(claim)}, purge: true, want: []string{"purge shop-db-auth"}},
		"already retained, to purge":              {spec: other, retained: []desired.RetainedObject{claimWith(withLabel(appsapi.DefaultKeys.Retained, "true"))}, purge: true},
		"data of a deleted application, to purge": {spec: other, retained: []desired.RetainedObject{claimWith(withLabel(appsapi.DefaultKeys.OwnerUID, "theirs"))}, purge: true},
		"more replicas":                           {spec: database("1Gi", func(c *testSpec) { c.Stateful.Replicas = new(int32(2)) }), retained: []desired.RetainedObject{claim}, observed: running, want: []string{"check claim data-shop-db-1", "apply"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, actions := planDataActions(stack(tc.spec), tc.retained, tc.observed, tc.purge)
			slices.Sort(actions)
			slices.Sort(tc.want)
			if !slices.Equal(actions, tc.want) {
				t.Errorf("got %q, want %q", actions, tc.want)
			}
			reason := ""
			if d != nil && d.Health != nil {
				reason = d.Health.Reason
			}
			if reason != tc.reason || d != nil && d.PodsAllowed != (reason == "") {
				t.Errorf("got reason %q, want %q", reason, tc.reason)
			}
		})
	}
}

// TestNewClaimsFollowReplicas checks only the claims of pods that the StatefulSet does not have yet.
func TestNewClaimsFollowReplicas(t *testing.T) {
	scaledToTwo := liveObjects(database("1Gi", statefulReplicas(2)))
	for name, tc := range map[string]struct {
		spec testSpec
		want []string
	}{
		"spec has more replicas":     {spec: database("1Gi", statefulReplicas(3)), want: []string{"check claim data-shop-db-2", "apply"}},
		"spec has fewer replicas":    {spec: database("1Gi", statefulReplicas(1)), want: []string{"apply"}},
		"spec does not set replicas": {spec: database("1Gi"), want: []string{"apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := planDataActions(stack(tc.spec), nil, scaledToTwo, false)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLostCredentialsHoldPodTemplate checks that running pods are not replaced and everything else
// is applied.
func TestLostCredentialsHoldPodTemplate(t *testing.T) {
	edited := database("1Gi", withCredentials, func(c *testSpec) { c.Stateful.Image = "db:2" })
	retained := []desired.RetainedObject{boundClaim("1Gi", "1Gi")}
	plan, err := NewPlan(Input{Owner: shop, Components: desired.Build(shop, expand(stack(edited)), desired.ClusterState{Retained: retained}), Retained: retained, Observed: liveObjects(database("1Gi", withCredentials))})
	must(err)
	for _, a := range plan.Steps[0].Apply {
		if a.HoldPodTemplate != (a.Kind == desired.KindStatefulSet) {
			t.Errorf("%s %s: pod template is held: %v", a.Kind.Kind, a.Name, a.HoldPodTemplate)
		}
	}
}

// TestRecreatedStatefulSetIgnoresDependencies checks that a StatefulSet is recreated around its
// pods even while a dependency is down.
func TestRecreatedStatefulSetIgnoresDependencies(t *testing.T) {
	db, api := database("1Gi", dependsOn("api")), service("api", "1")
	for orphaned, want := range map[int32]bool{0: false, 2: true} {
		state := desired.ClusterState{OrphanedReplicas: map[string]int32{"db": orphaned}}
		plan, err := NewPlan(Input{Owner: shop, Components: desired.Build(shop, expand(stack(db, api)), state)})
		must(err)
		if got := len(plan.Steps[0].Apply) > 0; got != want {
			t.Errorf("with %d running pods, applied: %v", orphaned, got)
		}
		for _, a := range plan.Steps[0].Apply {
			if set, ok := appliedChild(a.Child, nil).(*appsv1.StatefulSet); ok && *set.Spec.Replicas != orphaned {
				t.Errorf("got %d replicas for %d pods", *set.Spec.Replicas, orphaned)
			}
		}
	}
	components := desired.Build(shop, expand(stack(db, api)), desired.ClusterState{})
	leaving := liveObjects(db, api)
	set := leaving[desired.ID{Kind: desired.KindStatefulSet, Name: "shop-db"}].(*appsv1.StatefulSet)
	set.DeletionTimestamp, set.Finalizers = &noon, []string{metav1.FinalizerOrphanDependents}
	plan, err := NewPlan(Input{Owner: shop, Components: components, Observed: leaving})
	must(err)
	for _, a := range plan.Steps[0].Apply {
		if a.Kind == desired.KindStatefulSet {
			t.Error("applied to a StatefulSet that is being deleted")
		}
	}
}

func TestPlanDataFinalization(t *testing.T) {
	claim := boundClaim("1Gi", "1Gi")
	fresh := boundClaim("1Gi", "1Gi", withLabel(appsapi.LabelInstance, ""), withLabel(appsapi.LabelComponent, ""), withLabel(appsapi.DefaultKeys.OwnerKind, ""), withLabel(appsapi.DefaultKeys.OwnerUID, ""))
	retained := boundClaim("1Gi", "1Gi", withLabel(appsapi.DefaultKeys.Retained, "true"))
	theirs := boundClaim("1Gi", "1Gi", withLabel(appsapi.DefaultKeys.OwnerUID, "theirs"))
	webOnly := service("web", "1")
	cases := map[string]struct {
		spec     testSpec
		retained []desired.RetainedObject
		purge    bool
		want     string
	}{
		"retained":                                  {spec: database("1Gi"), retained: []desired.RetainedObject{claim, authSecret(claim)}, want: "retain data-shop-db-0, retain shop-db-auth"},
		"already retained":                          {spec: database("1Gi"), retained: []desired.RetainedObject{retained}},
		"new claim without labels":                  {spec: database("1Gi"), retained: []desired.RetainedObject{fresh}, want: "retain data-shop-db-0"},
		"data of a removed component":               {spec: webOnly, retained: []desired.RetainedObject{claim}, want: "retain data-shop-db-0"},
		"purged, the volume first":                  {spec: database("1Gi"), retained: []desired.RetainedObject{claim, authSecret(claim)}, purge: true, want: "purge data-shop-db-0"},
		"purged, the password last":                 {spec: database("1Gi"), retained: []desired.RetainedObject{authSecret(claim)}, purge: true, want: "purge shop-db-auth"},
		"already retained, to purge":                {spec: database("1Gi"), retained: []desired.RetainedObject{retained}, purge: true},
		"new claim, labeled before the purge":       {spec: database("1Gi"), retained: []desired.RetainedObject{fresh}, purge: true, want: "label data-shop-db-0"},
		"data of another application with the name": {spec: database("1Gi"), retained: []desired.RetainedObject{theirs}, purge: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			components := desired.Build(shop, expand(stack(tc.spec)), desired.ClusterState{Retained: tc.retained})
			var got []string
			for _, s := range PlanDataFinalization(shop, components, tc.retained, tc.purge) {
				what := "label "
				switch {
				case s.Purge:
					what = "purge "
				case s.DesiredLabels[appsapi.DefaultKeys.Retained] == "true":
					what = "retain "
				}
				got = append(got, what+s.Name)
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}
