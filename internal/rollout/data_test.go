package rollout

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func secured(c *appsapi.Component) { c.Stateful.Credentials = []appsapi.Credential{{Key: "password"}} }

// secretOf is the Secret of the database, which has the labels of its claim.
func secretOf(claim desired.Kept) desired.Kept {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: *claim.Claim.ObjectMeta.DeepCopy()}
	meta.Name = "shop-db-auth"
	return desired.Kept{ID: desired.ID{Kind: desired.KindSecret, Name: meta.Name}, Object: meta}
}

func labelled(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		if c.Labels[key] = value; value == "" {
			delete(c.Labels, key)
		}
	}
}

// decide plans for a spec with what is kept, and says what is done about data.
func decide(spec []appsapi.Component, kept []desired.Kept, seen Seen, purge bool) (first *Data, did []string) {
	plan, err := For(Input{Owner: shop, Components: desired.For(shop, spec, desired.Known{Kept: kept}), Kept: kept, Seen: seen, DeleteData: purge})
	must(err)
	for _, s := range plan.Steps {
		if s.Data == nil {
			continue
		}
		if first == nil {
			first = s.Data
		}
		for _, l := range s.Data.Label {
			did = append(did, "label "+l.Name)
		}
		if s.Data.Create {
			did = append(did, "make credentials")
		}
		for _, name := range s.Data.Claims {
			did = append(did, "look for "+name)
		}
		if slices.ContainsFunc(s.Apply, func(a Application) bool { return a.Kind == desired.KindStatefulSet }) {
			did = append(did, "apply")
		}
	}
	for _, l := range plan.Retain {
		did = append(did, "retain "+l.Name)
	}
	for _, k := range plan.Purge {
		did = append(did, "purge "+k.Name)
	}
	return first, did
}

func TestData(t *testing.T) {
	claim := claimOf("1Gi", "1Gi")
	claimWith := func(changes ...func(*corev1.PersistentVolumeClaim)) desired.Kept {
		return claimOf("1Gi", "1Gi", changes...)
	}
	db, other := database("1Gi", secured), service("web", "1")
	renamed := database("1Gi", secured, was("db"))
	renamed.Name = "database"
	unsaid := database("1Gi", secured)
	unsaid.Name = "database"
	runs := lives(database("1Gi"))
	cases := map[string]struct {
		spec   appsapi.Component
		kept   []desired.Kept
		seen   Seen
		purge  bool
		want   []string
		reason string
	}{
		"new":                                 {spec: db, want: []string{"make credentials", "look for data-shop-db-0", "apply"}},
		"without credentials":                 {spec: database("1Gi"), want: []string{"look for data-shop-db-0", "apply"}},
		"back to its data":                    {spec: db, kept: []desired.Kept{claim, secretOf(claim)}, want: []string{"apply"}},
		"back to what was kept":               {spec: db, kept: []desired.Kept{claimWith(labelled(appsapi.LabelRetained, "true")), secretOf(claim)}, want: []string{"label data-shop-db-0", "apply"}},
		"of an object before":                 {spec: db, kept: []desired.Kept{claimWith(labelled(appsapi.LabelOwnerUID, "theirs")), secretOf(claim)}, want: []string{"label data-shop-db-0", "apply"}},
		"a claim that was just made":          {spec: db, kept: []desired.Kept{claimWith(labelled(appsapi.LabelInstance, ""), labelled(appsapi.LabelComponent, ""), labelled(appsapi.LabelOwnerKind, "")), secretOf(claim)}, seen: runs, want: []string{"label data-shop-db-0", "apply"}},
		"renamed":                             {spec: renamed, kept: []desired.Kept{claim, secretOf(claim)}, seen: runs, want: []string{"label data-shop-db-0", "label shop-db-auth", "apply"}},
		"credentials are gone":                {spec: db, kept: []desired.Kept{claim}, reason: "CredentialsLost"},
		"credentials are gone while it runs":  {spec: db, kept: []desired.Kept{claim}, seen: runs, want: []string{"apply"}, reason: "CredentialsLost"},
		"credentials without data":            {spec: db, kept: []desired.Kept{secretOf(claim)}, want: []string{"look for data-shop-db-0", "apply"}},
		"another volume":                      {spec: database("1Gi", func(c *appsapi.Component) { c.Stateful.Storage[0].Name = "other" }), kept: []desired.Kept{claim}, reason: "DataConflict"},
		"a rename that nobody said":           {spec: unsaid, kept: []desired.Kept{claim, secretOf(claim)}, want: []string{"retain data-shop-db-0", "retain shop-db-auth"}, reason: "DataConflict"},
		"a rename that nobody said, to purge": {spec: unsaid, kept: []desired.Kept{claim, secretOf(claim)}, purge: true, reason: "DataConflict"},
		"left the spec, and runs":             {spec: other, kept: []desired.Kept{claim, secretOf(claim)}, seen: runs},
		"left the spec":                       {spec: other, kept: []desired.Kept{claim, secretOf(claim)}, want: []string{"retain data-shop-db-0", "retain shop-db-auth"}},
		"left the spec before":                {spec: other, kept: []desired.Kept{claimWith(labelled(appsapi.LabelRetained, "true"))}},
		"left the spec, to purge":             {spec: other, kept: []desired.Kept{claim, secretOf(claim)}, purge: true, want: []string{"purge data-shop-db-0"}},
		"the data is purged":                  {spec: other, kept: []desired.Kept{secretOf(claim)}, purge: true, want: []string{"purge shop-db-auth"}},
		"kept on purpose, to purge":           {spec: other, kept: []desired.Kept{claimWith(labelled(appsapi.LabelRetained, "true"))}, purge: true},
		"of an object before, to purge":       {spec: other, kept: []desired.Kept{claimWith(labelled(appsapi.LabelOwnerUID, "theirs"))}, purge: true},
		"more pods":                           {spec: database("1Gi", func(c *appsapi.Component) { c.Stateful.Replicas = new(int32(2)) }), kept: []desired.Kept{claim}, seen: runs, want: []string{"look for data-shop-db-1", "apply"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, did := decide(stack(tc.spec), tc.kept, tc.seen, tc.purge)
			slices.Sort(did)
			slices.Sort(tc.want)
			if !slices.Equal(did, tc.want) {
				t.Errorf("did %q, want %q", did, tc.want)
			}
			reason := ""
			if d != nil && d.Verdict != nil {
				reason = d.Verdict.Reason
			}
			if reason != tc.reason || d != nil && d.Start != (reason == "") {
				t.Errorf("said %q, want %q", reason, tc.reason)
			}
		})
	}
}

// TestLostCredentialsHoldPods leaves pods alone that run, and lets everything else pass.
func TestLostCredentialsHoldPods(t *testing.T) {
	edited := database("1Gi", secured, func(c *appsapi.Component) { c.Stateful.Image = "db:2" })
	kept := []desired.Kept{claimOf("1Gi", "1Gi")}
	plan, err := For(Input{Owner: shop, Components: desired.For(shop, stack(edited), desired.Known{Kept: kept}), Kept: kept, Seen: lives(database("1Gi", secured))})
	must(err)
	for _, a := range plan.Steps[0].Apply {
		if a.HoldPods != (a.Kind == desired.KindStatefulSet) {
			t.Errorf("%s %s: pods are held: %v", a.Kind.Kind, a.Name, a.HoldPods)
		}
	}
}

// TestRenewPassesTheGate makes a set anew around its pods also while what it needs is down.
func TestRenewPassesTheGate(t *testing.T) {
	db, api := database("1Gi", needing("api")), service("api", "1")
	for running, want := range map[int32]bool{0: false, 2: true} {
		known := desired.Known{Running: map[string]int32{"db": running}}
		plan, err := For(Input{Owner: shop, Components: desired.For(shop, stack(db, api), known)})
		must(err)
		if got := len(plan.Steps[0].Apply) > 0; got != want {
			t.Errorf("with %d pods that run applied: %v", running, got)
		}
		for _, a := range plan.Steps[0].Apply {
			if set, ok := applied(a.Child, nil).(*appsv1.StatefulSet); ok && *set.Spec.Replicas != running {
				t.Errorf("made for %d of %d pods", *set.Spec.Replicas, running)
			}
		}
	}
	components := desired.For(shop, stack(db, api), desired.Known{})
	leaving := lives(db, api)
	set := leaving[desired.ID{Kind: desired.KindStatefulSet, Name: "shop-db"}].(*appsv1.StatefulSet)
	set.DeletionTimestamp, set.Finalizers = &noon, []string{metav1.FinalizerOrphanDependents}
	plan, err := For(Input{Owner: shop, Components: components, Seen: leaving})
	must(err)
	for _, a := range plan.Steps[0].Apply {
		if a.Kind == desired.KindStatefulSet {
			t.Error("applied to a set that is on its way out")
		}
	}
}

func TestSettle(t *testing.T) {
	claim := claimOf("1Gi", "1Gi")
	fresh := claimOf("1Gi", "1Gi", labelled(appsapi.LabelInstance, ""), labelled(appsapi.LabelComponent, ""), labelled(appsapi.LabelOwnerKind, ""), labelled(appsapi.LabelOwnerUID, ""))
	retained := claimOf("1Gi", "1Gi", labelled(appsapi.LabelRetained, "true"))
	theirs := claimOf("1Gi", "1Gi", labelled(appsapi.LabelOwnerUID, "theirs"))
	gone := service("web", "1")
	cases := map[string]struct {
		spec  appsapi.Component
		kept  []desired.Kept
		purge bool
		want  string
	}{
		"kept":                          {spec: database("1Gi"), kept: []desired.Kept{claim, secretOf(claim)}, want: "retain data-shop-db-0, retain shop-db-auth"},
		"kept already":                  {spec: database("1Gi"), kept: []desired.Kept{retained}},
		"just made":                     {spec: database("1Gi"), kept: []desired.Kept{fresh}, want: "retain data-shop-db-0"},
		"of a component that is gone":   {spec: gone, kept: []desired.Kept{claim}, want: "retain data-shop-db-0"},
		"purged, the volume first":      {spec: database("1Gi"), kept: []desired.Kept{claim, secretOf(claim)}, purge: true, want: "purge data-shop-db-0"},
		"purged, then the password":     {spec: database("1Gi"), kept: []desired.Kept{secretOf(claim)}, purge: true, want: "purge shop-db-auth"},
		"kept on purpose before":        {spec: database("1Gi"), kept: []desired.Kept{retained}, purge: true},
		"just made, says first whose":   {spec: database("1Gi"), kept: []desired.Kept{fresh}, purge: true, want: "label data-shop-db-0"},
		"of another object of the name": {spec: database("1Gi"), kept: []desired.Kept{theirs}, purge: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			components := desired.For(shop, stack(tc.spec), desired.Known{Kept: tc.kept})
			var got []string
			for _, s := range Settle(shop, components, tc.kept, tc.purge) {
				what := "label "
				switch {
				case s.Purge:
					what = "purge "
				case s.Want[appsapi.LabelRetained] == "true":
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
