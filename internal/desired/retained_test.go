package desired

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// retainedFixture describes a claim or Secret by its labels.
type retainedFixture struct {
	name, statefulSet         string
	kind, instance, component string
	annotation                string
	secret, retained          bool
}

func (k retainedFixture) object() RetainedObject {
	meta := metav1.ObjectMeta{Name: k.name, Namespace: "shop", Labels: map[string]string{
		appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.DefaultKeys.Workload: WorkloadID("StatefulSet", k.statefulSet)}}
	for label, v := range map[string]string{appsapi.DefaultKeys.OwnerKind: k.kind, appsapi.LabelInstance: k.instance, appsapi.LabelComponent: k.component} {
		if v != "" {
			meta.Labels[label] = v
		}
	}
	if k.retained {
		meta.Labels[appsapi.DefaultKeys.Retained] = "true"
	}
	if k.annotation != "" {
		meta.Annotations = map[string]string{k.annotation: "true"}
	}
	if k.secret {
		if k.statefulSet == "" {
			meta.Labels = nil
		}
		return RetainedSecret(appsapi.DefaultKeys, &metav1.PartialObjectMetadata{ObjectMeta: meta})
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
	return RetainedClaim(appsapi.DefaultKeys, claim)
}

func ownedFixture(name, set, component string) retainedFixture {
	return retainedFixture{name: name, statefulSet: set, kind: "AppStack", instance: "shop", component: component}
}

func TestLocateData(t *testing.T) {
	annotated := func(k retainedFixture, annotation string) retainedFixture { k.annotation = annotation; return k }
	secret := func(k retainedFixture) retainedFixture { k.secret = true; return k }
	theirs := retainedFixture{name: "data-shop-db-0", statefulSet: "shop-db", kind: "AppStack", instance: "other", component: "db"}
	db, renamed := appsapi.Component{Name: "db"}, appsapi.Component{Name: "database", RenamedFrom: "db"}
	cases := map[string]struct {
		component appsapi.Component
		fixtures  []retainedFixture
		set       string
		count     int
		conflict  string // a part of the message
	}{
		"no data":                          {component: db, set: "shop-db"},
		"own data":                         {component: db, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db"), secret(ownedFixture("shop-db-auth", "shop-db", "db"))}, set: "shop-db", count: 2},
		"data under a previous name":       {component: db, fixtures: []retainedFixture{ownedFixture("data-old-0", "old", "db")}, set: "old", count: 1},
		"new claim without owner labels":   {component: db, fixtures: []retainedFixture{{name: "data-shop-db-0", statefulSet: "shop-db"}}, set: "shop-db", count: 1},
		"new claim of another pod":         {component: db, fixtures: []retainedFixture{ownedFixture("data-old-0", "old", "db"), {name: "data-old-1", statefulSet: "old"}}, set: "old", count: 2},
		"renamed":                          {component: renamed, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db")}, set: "shop-db", count: 1},
		"renamed, labels partly updated":   {component: renamed, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "database"), ownedFixture("data-shop-db-1", "shop-db", "db")}, set: "shop-db", count: 2},
		"renamed, with data of both names": {component: renamed, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db"), ownedFixture("data-shop-database-0", "shop-database", "database")}, set: "shop-database", conflict: "more than one place"},
		"rename without renamedFrom":       {component: appsapi.Component{Name: "database"}, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db")}, set: "shop-database", conflict: "set renamedFrom: db"},
		"released data of another name":    {component: appsapi.Component{Name: "database"}, fixtures: []retainedFixture{annotated(ownedFixture("data-shop-db-0", "shop-db", "db"), appsapi.DefaultKeys.Released)}, set: "shop-database"},
		"credentials without data":         {component: appsapi.Component{Name: "database"}, fixtures: []retainedFixture{secret(ownedFixture("shop-db-auth", "shop-db", "db"))}, set: "shop-database"},
		"data of another application":      {component: db, fixtures: []retainedFixture{theirs}, set: "shop-db", conflict: `belongs to component "db" of AppStack "other"`},
		"data partly of another owner":     {component: db, fixtures: []retainedFixture{ownedFixture("data-shop-db-1", "shop-db", "db"), theirs}, set: "shop-db", conflict: `of AppStack "other"`},
		"data with adopt annotation":       {component: db, fixtures: []retainedFixture{annotated(theirs, appsapi.DefaultKeys.Adopt)}, set: "shop-db", count: 1},
		"data of a removed component":      {component: appsapi.Component{Name: "new", ResourceName: "shop-db"}, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db")}, set: "shop-db", conflict: "set renamedFrom: db; otherwise rename the component"},
		"renamed back":                     {component: db, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "store"), secret(ownedFixture("shop-db-auth", "shop-db", "store"))}, set: "shop-db", count: 2},
		"data of a removed component that was renamed": {component: db, fixtures: []retainedFixture{func() retainedFixture {
			k := ownedFixture("data-shop-db-0", "shop-db", "store")
			k.retained = true
			return k
		}()}, set: "shop-db", conflict: "set renamedFrom: store; otherwise rename the component"},
		"unrelated Secret with the name":   {component: db, fixtures: []retainedFixture{{name: "shop-db-auth", secret: true}}, set: "shop-db", conflict: "Secret shop-db-auth exists and is not managed by Holdfast"},
		"restored Secret without labels":   {component: db, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db"), {name: "shop-db-auth", secret: true}}, set: "shop-db", count: 2},
		"another resourceName":             {component: appsapi.Component{Name: "db", ResourceName: "new"}, fixtures: []retainedFixture{ownedFixture("data-shop-db-0", "shop-db", "db")}, set: "shop-db", count: 1},
		"a volume with dashes in its name": {component: db, fixtures: []retainedFixture{ownedFixture("my-data-shop-db-0", "shop-db", "db")}, set: "shop-db", count: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.component.Stateful = &appsapi.StatefulComponent{}
			var objects []RetainedObject
			for _, k := range tc.fixtures {
				objects = append(objects, k.object())
			}
			c := Build(stack, ExpandComponents([]appsapi.Component{tc.component}), ClusterState{Retained: objects})[0]
			if c.Workload.Name != tc.set || len(c.Data.Retained) != tc.count && tc.conflict == "" {
				t.Errorf("found %d in %s, want %d in %s", len(c.Data.Retained), c.Workload.Name, tc.count, tc.set)
			}
			if (tc.conflict == "") != (c.Data.Conflict == "") || !strings.Contains(c.Data.Conflict, tc.conflict) {
				t.Errorf("got conflict %q, want %q", c.Data.Conflict, tc.conflict)
			}
			if want := DeclaredName(stack, ExpandedComponent{Component: tc.component}); c.ServiceName != want || c.Data.Secret != tc.set+"-auth" {
				t.Errorf("Service %s and Secret %s, want %s and %s-auth", c.ServiceName, c.Data.Secret, want, tc.set)
			}
		})
	}
}

// TestStatefulSetNameOfHashedLabel derives a name whose label contains only its hash.
func TestStatefulSetNameOfHashedLabel(t *testing.T) {
	set := strings.Repeat("s", maxStatefulSetName)
	k := ownedFixture(ClaimName("my-data", set, 12), set, "db").object()
	if k.WorkloadID() == "statefulset-"+set {
		t.Fatal("the label contains the whole name")
	}
	if got := k.StatefulSetName(); got != set {
		t.Errorf("got %q", got)
	}
	foreign := RetainedClaim(appsapi.DefaultKeys, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}})
	if got := foreign.StatefulSetName(); got != "" {
		t.Errorf("got %q for a claim without a StatefulSet", got)
	}
}

// TestRenameKeepsPods: renaming the component, recreating the application and changing the name of the Service do not
// replace the pods.
func TestRenameKeepsPods(t *testing.T) {
	db := appsapi.Component{Name: "db", Stateful: &appsapi.StatefulComponent{Credentials: []appsapi.Credential{{Key: "password", Env: "PASSWORD"}}}}
	db.Stateful.Image, db.Stateful.Config.Files = "db:1", []appsapi.ConfigFile{{Path: "/etc/db", Content: "x"}}
	before, err := Build(stack, ExpandComponents([]appsapi.Component{db}), ClusterState{})[0].Children[0].Render(nil)
	must(err)
	db.Name, db.RenamedFrom, db.ResourceName = "database", "db", "elsewhere"
	again := stack
	again.UID = "another"
	known := ClusterState{Retained: []RetainedObject{ownedFixture("data-shop-db-0", "shop-db", "db").object()}}
	after, err := Build(again, ExpandComponents([]appsapi.Component{db}), known)[0].Children[0].Render(nil)
	must(err)
	if before.podHold.hash != after.podHold.hash {
		t.Error("the pods would be replaced")
	}
}

func TestRetainedDataBelongsToOneGroup(t *testing.T) {
	builtin := Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Name: "shop"}
	foreign := Owner{Keys: appsapi.DefaultKeys, APIVersion: "example.com/v1", Kind: "AppStack", Name: "shop"}
	claimOf := func(owner Owner) RetainedObject {
		return RetainedClaim(appsapi.DefaultKeys, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: childLabels(owner, ExpandedComponent{Component: appsapi.Component{Name: "db"}})}})
	}
	for _, tc := range []struct {
		data, app Owner
		want      bool
	}{{builtin, builtin, true}, {foreign, foreign, true}, {foreign, builtin, false}, {builtin, foreign, false}} {
		if got := claimOf(tc.data).BelongsTo(tc.app); got != tc.want {
			t.Errorf("data of %s belongs to %s: %t, want %t", tc.data.APIVersion, tc.app.APIVersion, got, tc.want)
		}
	}
	if got := builtin.KindLabel(); got != "AppStack" {
		t.Errorf("the label of a built-in kind is %q: volume claim templates cannot change", got)
	}
	long := Owner{Keys: appsapi.DefaultKeys, APIVersion: strings.Repeat("very-long.", 10) + "example.com/v1", Kind: "AppStack"}
	if got := long.KindLabel(); len(got) > maxLabelLength {
		t.Errorf("%q is too long for a label", got)
	}
}
