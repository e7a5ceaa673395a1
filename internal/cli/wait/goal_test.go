package wait

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// stack is one of generation 3.
func stack(change func(*appsapi.AppStack)) application.Application {
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "shop", Generation: 3}}
	app.Spec.Components = []appsapi.Component{{Name: "web"}, {Name: "db"}}
	app.Status.ObservedGeneration = 3
	app.Status.CurrentRevision = "5"
	app.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Reconciled", Message: "Everything runs as declared", ObservedGeneration: 3}}
	if change != nil {
		change(app)
	}
	return app
}

func TestGoals(t *testing.T) {
	const (
		unseen  = "the operator has not seen the last change of its spec yet; if that takes long, kubectl holdfast doctor tells why"
		nothing = "the operator has not looked at it yet; if that takes long, kubectl holdfast doctor tells why"
		still   = "its spec does not say suspend; kubectl holdfast suspend shop -n prod sets it"
	)
	degraded := func(a *appsapi.AppStack) {
		a.Status.Conditions[0].Status, a.Status.Conditions[0].Message = metav1.ConditionFalse, "Component \"web\" is broken"
	}
	edited := func(a *appsapi.AppStack) { a.Generation = 4 }
	created := func(a *appsapi.AppStack) { a.Status = appsapi.AppStackStatus{} }
	suspendedAll := func(a *appsapi.AppStack) { a.Spec.Suspend = true }
	cases := map[string]struct {
		until string
		app   application.Application
		want  verdict
	}{
		"ready":                                 {"ready", stack(nil), verdict{reached: true, sentence: "is ready: Everything runs as declared"}},
		"not ready":                             {"ready", stack(degraded), verdict{sentence: `Component "web" is broken`}},
		"ready before the last edit":            {"ready", stack(edited), verdict{sentence: unseen}},
		"new":                                   {"ready", stack(created), verdict{sentence: nothing}},
		"a condition about an older generation": {"ready", stack(func(a *appsapi.AppStack) { a.Status.Conditions[0].ObservedGeneration = 2 }), verdict{sentence: "the operator has not said yet whether it is ready"}},
		"no conditions":                         {"ready", stack(func(a *appsapi.AppStack) { a.Status.Conditions = nil }), verdict{sentence: "the operator has not said yet whether it is ready"}},

		"suspended":                    {"suspended", stack(suspendedAll), verdict{reached: true, sentence: "is suspended"}},
		"each component suspended":     {"suspended", stack(func(a *appsapi.AppStack) { a.Spec.Components[0].Suspend, a.Spec.Components[1].Suspend = true, true }), verdict{reached: true, sentence: "is suspended"}},
		"one component suspended":      {"suspended", stack(func(a *appsapi.AppStack) { a.Spec.Components[0].Suspend = true }), verdict{sentence: still}},
		"suspended, and not yet seen":  {"suspended", stack(func(a *appsapi.AppStack) { suspendedAll(a); edited(a) }), verdict{sentence: unseen}},
		"no CloudManager is suspended": {"suspended", &appsapi.CloudManager{}, verdict{never: true, sentence: "cannot be suspended: its kind has no field for that; wait for it with --for ready"}},

		"deleted by nobody": {"deleted", stack(nil), verdict{sentence: "nobody has deleted it; kubectl delete appstack shop -n prod does"}},
		"on its way out":    {"deleted", stack(func(a *appsapi.AppStack) { a.DeletionTimestamp = &metav1.Time{} }), verdict{sentence: "it is being deleted"}},
		"on its way out, with a reason": {"deleted", stack(func(a *appsapi.AppStack) {
			a.DeletionTimestamp = &metav1.Time{}
			a.Generation = 4
			a.Status.Conditions[0].Reason, a.Status.Conditions[0].Message = "Deleting", `Waits until "web" has ended`
		}), verdict{sentence: `Waits until "web" has ended`}},

		"at the revision":            {"revision=5", stack(nil), verdict{reached: true, sentence: "is at revision 5"}},
		"at it, and not ready":       {"revision=5", stack(degraded), verdict{reached: true, sentence: "is at revision 5"}},
		"before it":                  {"revision=6", stack(nil), verdict{sentence: "revision 5 is applied"}},
		"beyond it":                  {"revision=4", stack(nil), verdict{never: true, sentence: "is at revision 5 already, and numbers only grow; kubectl holdfast history shop -n prod lists them"}},
		"at it before the last edit": {"revision=5", stack(edited), verdict{sentence: unseen}},
		"no revision yet":            {"revision=1", stack(func(a *appsapi.AppStack) { a.Status.CurrentRevision = "" }), verdict{sentence: "the operator has not said yet which revision is applied"}},
		"no revisions at all":        {"revision=1", &appsapi.AppService{}, verdict{never: true, sentence: "has no revisions: an AppService remembers no earlier specs; wait for it with --for ready"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			judge, _, err := goalOf(tc.until)
			if err != nil {
				t.Fatal(err)
			}
			if got := judge(tc.app); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestWrongGoals(t *testing.T) {
	for word, want := range map[string]string{
		"Ready":      `cannot wait for "Ready"; use --for ready, suspended, deleted or revision=N`,
		"revision":   `"" is no number of a revision; kubectl holdfast history lists them`,
		"revision=x": `"x" is no number of a revision; kubectl holdfast history lists them`,
		"revision=0": `"0" is no number of a revision; kubectl holdfast history lists them`,
	} {
		if _, _, err := goalOf(word); err == nil || err.Error() != want {
			t.Errorf("--for %s: got %v, want %s", word, err, want)
		}
	}
}
