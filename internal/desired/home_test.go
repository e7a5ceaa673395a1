package desired

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// kept is a claim or Secret as its labels describe it.
type kept struct {
	name, set                 string
	kind, instance, component string
	annotation                string
	secret                    bool
}

func (k kept) object() Kept {
	meta := metav1.ObjectMeta{Name: k.name, Namespace: "shop", Labels: map[string]string{
		appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelWorkload: WorkloadID("StatefulSet", k.set)}}
	for label, v := range map[string]string{appsapi.LabelOwnerKind: k.kind, appsapi.LabelInstance: k.instance, appsapi.LabelComponent: k.component} {
		if v != "" {
			meta.Labels[label] = v
		}
	}
	if k.annotation != "" {
		meta.Annotations = map[string]string{k.annotation: "true"}
	}
	if k.secret {
		if k.set == "" {
			meta.Labels = nil
		}
		return Kept{ID: ID{KindSecret, k.name}, Object: &metav1.PartialObjectMetadata{ObjectMeta: meta}}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
	return Kept{ID: ID{KindClaim, k.name}, Object: claim, Claim: claim}
}

func ours(name, set, component string) kept {
	return kept{name: name, set: set, kind: "AppStack", instance: "shop", component: component}
}

func TestHomes(t *testing.T) {
	annotated := func(k kept, annotation string) kept { k.annotation = annotation; return k }
	secret := func(k kept) kept { k.secret = true; return k }
	theirs := kept{name: "data-shop-db-0", set: "shop-db", kind: "AppStack", instance: "other", component: "db"}
	db, renamed := appsapi.Component{Name: "db"}, appsapi.Component{Name: "database", RenamedFrom: "db"}
	cases := map[string]struct {
		component appsapi.Component
		kept      []kept
		set       string
		has       int
		refused   string // a part of it
	}{
		"nothing yet":                      {component: db, set: "shop-db"},
		"its own":                          {component: db, kept: []kept{ours("data-shop-db-0", "shop-db", "db"), secret(ours("shop-db-auth", "shop-db", "db"))}, set: "shop-db", has: 2},
		"under the name it had":            {component: db, kept: []kept{ours("data-old-0", "old", "db")}, set: "old", has: 1},
		"just made, by nobody yet":         {component: db, kept: []kept{{name: "data-shop-db-0", set: "shop-db"}}, set: "shop-db", has: 1},
		"a new pod's beside it":            {component: db, kept: []kept{ours("data-old-0", "old", "db"), {name: "data-old-1", set: "old"}}, set: "old", has: 2},
		"renamed":                          {component: renamed, kept: []kept{ours("data-shop-db-0", "shop-db", "db")}, set: "shop-db", has: 1},
		"renamed, half of it says so":      {component: renamed, kept: []kept{ours("data-shop-db-0", "shop-db", "database"), ours("data-shop-db-1", "shop-db", "db")}, set: "shop-db", has: 2},
		"renamed, and has data already":    {component: renamed, kept: []kept{ours("data-shop-db-0", "shop-db", "db"), ours("data-shop-database-0", "shop-database", "database")}, set: "shop-database", refused: "more than one place"},
		"a rename that nobody said":        {component: appsapi.Component{Name: "database"}, kept: []kept{ours("data-shop-db-0", "shop-db", "db")}, set: "shop-database", refused: "say renamedFrom: db"},
		"beside what was given up":         {component: appsapi.Component{Name: "database"}, kept: []kept{annotated(ours("data-shop-db-0", "shop-db", "db"), appsapi.AnnotationReleased)}, set: "shop-database"},
		"beside a password without data":   {component: appsapi.Component{Name: "database"}, kept: []kept{secret(ours("shop-db-auth", "shop-db", "db"))}, set: "shop-database"},
		"in a place that is another's":     {component: db, kept: []kept{theirs}, set: "shop-db", refused: `has the data of component "db" of AppStack "other"`},
		"half of it is another's":          {component: db, kept: []kept{ours("data-shop-db-1", "shop-db", "db"), theirs}, set: "shop-db", refused: `of AppStack "other"`},
		"that was handed over":             {component: db, kept: []kept{annotated(theirs, appsapi.AnnotationAdopt)}, set: "shop-db", has: 1},
		"in the place of a component":      {component: appsapi.Component{Name: "new", ResourceName: "shop-db"}, kept: []kept{ours("data-shop-db-0", "shop-db", "db")}, set: "shop-db", refused: "say renamedFrom: db; otherwise give the component another name"},
		"a Secret that has the name":       {component: db, kept: []kept{{name: "shop-db-auth", secret: true}}, set: "shop-db", refused: "Secret shop-db-auth exists and is not Holdfast's"},
		"a Secret that people restored":    {component: db, kept: []kept{ours("data-shop-db-0", "shop-db", "db"), {name: "shop-db-auth", secret: true}}, set: "shop-db", has: 2},
		"another name for its Service":     {component: appsapi.Component{Name: "db", ResourceName: "new"}, kept: []kept{ours("data-shop-db-0", "shop-db", "db")}, set: "shop-db", has: 1},
		"a volume with dashes in its name": {component: db, kept: []kept{ours("my-data-shop-db-0", "shop-db", "db")}, set: "shop-db", has: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.component.Stateful = &appsapi.StatefulComponent{}
			var objects []Kept
			for _, k := range tc.kept {
				objects = append(objects, k.object())
			}
			c := For(stack, []appsapi.Component{tc.component}, Known{Kept: objects})[0]
			if c.Workload.Name != tc.set || len(c.Data.Kept) != tc.has && tc.refused == "" {
				t.Errorf("found %d in %s, want %d in %s", len(c.Data.Kept), c.Workload.Name, tc.has, tc.set)
			}
			if (tc.refused == "") != (c.Data.Refused == "") || !strings.Contains(c.Data.Refused, tc.refused) {
				t.Errorf("refused with %q, want %q", c.Data.Refused, tc.refused)
			}
			if want := Name(stack, tc.component); c.Address != want || c.Data.Secret != tc.set+"-auth" {
				t.Errorf("Service %s and Secret %s, want %s and %s-auth", c.Address, c.Data.Secret, want, tc.set)
			}
		})
	}
}

// TestSetOfALongName finds the name that only a hash of is left in the label.
func TestSetOfALongName(t *testing.T) {
	set := strings.Repeat("s", maxStatefulSet)
	k := ours(ClaimName("my-data", set, 12), set, "db").object()
	if k.Workload() == "statefulset-"+set {
		t.Fatal("the label has room for all of it")
	}
	if got := k.Set(); got != set {
		t.Errorf("got %q", got)
	}
	foreign := Kept{ID: ID{KindClaim, "data"}, Object: &metav1.ObjectMeta{}, Claim: &corev1.PersistentVolumeClaim{}}
	if got := foreign.Set(); got != "" {
		t.Errorf("got %q of a claim that no StatefulSet made", got)
	}
}

// TestRenameKeepsPods renames, moves to another object of the same name and changes the name
// of the Service: the pods stay what they are.
func TestRenameKeepsPods(t *testing.T) {
	db := appsapi.Component{Name: "db", Stateful: &appsapi.StatefulComponent{Credentials: []appsapi.Credential{{Key: "password", Env: "PASSWORD"}}}}
	db.Stateful.Image, db.Stateful.Config.Files = "db:1", []appsapi.ConfigFile{{Path: "/etc/db", Content: "x"}}
	before, err := For(stack, []appsapi.Component{db}, Known{})[0].Children[0].Render(nil)
	must(err)
	db.Name, db.RenamedFrom, db.ResourceName = "database", "db", "elsewhere"
	again := stack
	again.UID = "another"
	known := Known{Kept: []Kept{ours("data-shop-db-0", "shop-db", "db").object()}}
	after, err := For(again, []appsapi.Component{db}, known)[0].Children[0].Render(nil)
	must(err)
	if before.gate.hash != after.gate.hash {
		t.Error("the pods would be replaced")
	}
}
