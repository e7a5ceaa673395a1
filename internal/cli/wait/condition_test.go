package wait

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// newStack is one of generation 3.
func newStack(change func(*appsapi.AppStack)) application.Application {
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

func TestConditions(t *testing.T) {
	const (
		notObserved   = "the operator has not seen the last change of its spec yet; if that takes long, kubectl holdfast doctor tells why"
		neverObserved = "the operator has not looked at it yet; if that takes long, kubectl holdfast doctor tells why"
		notSuspended  = "its spec does not say suspend; kubectl holdfast suspend shop -n prod sets it"
	)
	degraded := func(a *appsapi.AppStack) {
		a.Status.Conditions[0].Status, a.Status.Conditions[0].Message = metav1.ConditionFalse, "Component \"web\" is broken"
	}
	edited := func(a *appsapi.AppStack) { a.Generation = 4 }
	created := func(a *appsapi.AppStack) { a.Status = appsapi.AppStackStatus{} }
	suspendedAll := func(a *appsapi.AppStack) { a.Spec.Suspend = true }
	cases := map[string]struct {
		condition string
		app       application.Application
		want      result
	}{
		"ready":                                 {"ready", newStack(nil), result{reached: true, message: "is ready: Everything runs as declared"}},
		"not ready":                             {"ready", newStack(degraded), result{message: `Component "web" is broken`}},
		"ready before the last edit":            {"ready", newStack(edited), result{message: notObserved}},
		"new":                                   {"ready", newStack(created), result{message: neverObserved}},
		"a condition about an older generation": {"ready", newStack(func(a *appsapi.AppStack) { a.Status.Conditions[0].ObservedGeneration = 2 }), result{message: "the operator has not said yet whether it is ready"}},
		"no conditions":                         {"ready", newStack(func(a *appsapi.AppStack) { a.Status.Conditions = nil }), result{message: "the operator has not said yet whether it is ready"}},

		"suspended":                    {"suspended", newStack(suspendedAll), result{reached: true, message: "is suspended"}},
		"each component suspended":     {"suspended", newStack(func(a *appsapi.AppStack) { a.Spec.Components[0].Suspend, a.Spec.Components[1].Suspend = true, true }), result{reached: true, message: "is suspended"}},
		"one component suspended":      {"suspended", newStack(func(a *appsapi.AppStack) { a.Spec.Components[0].Suspend = true }), result{message: notSuspended}},
		"suspended, and not yet seen":  {"suspended", newStack(func(a *appsapi.AppStack) { suspendedAll(a); edited(a) }), result{message: notObserved}},
		"no CloudManager is suspended": {"suspended", &appsapi.CloudManager{}, result{unreachable: true, message: "cannot be suspended: its kind has no field for that; wait for it with --for ready"}},

		"deleted by nobody": {"deleted", newStack(nil), result{message: "nobody has deleted it; kubectl delete appstack shop -n prod does"}},
		"on its way out":    {"deleted", newStack(func(a *appsapi.AppStack) { a.DeletionTimestamp = &metav1.Time{} }), result{message: "it is being deleted"}},
		"on its way out, with a reason": {"deleted", newStack(func(a *appsapi.AppStack) {
			a.DeletionTimestamp = &metav1.Time{}
			a.Generation = 4
			a.Status.Conditions[0].Reason, a.Status.Conditions[0].Message = "Deleting", `Waits until "web" has ended`
		}), result{message: `Waits until "web" has ended`}},

		"at the revision":            {"revision=5", newStack(nil), result{reached: true, message: "is at revision 5"}},
		"at it, and not ready":       {"revision=5", newStack(degraded), result{reached: true, message: "is at revision 5"}},
		"before it":                  {"revision=6", newStack(nil), result{message: "revision 5 is applied"}},
		"beyond it":                  {"revision=4", newStack(nil), result{unreachable: true, message: "is at revision 5 already, and numbers only grow; kubectl holdfast history shop -n prod lists them"}},
		"at it before the last edit": {"revision=5", newStack(edited), result{message: notObserved}},
		"no revision yet":            {"revision=1", newStack(func(a *appsapi.AppStack) { a.Status.CurrentRevision = "" }), result{message: "the operator has not said yet which revision is applied"}},
		"no revisions at all":        {"revision=1", &appsapi.AppService{}, result{unreachable: true, message: "has no revisions: an AppService remembers no earlier specs; wait for it with --for ready"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			check, _, err := parseCondition(tc.condition)
			if err != nil {
				t.Fatal(err)
			}
			if got := check(tc.app); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestParseConditionErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"Ready":      `cannot wait for "Ready"; use --for ready, suspended, deleted or revision=N`,
		"revision":   `"" is no number of a revision; kubectl holdfast history lists them`,
		"revision=x": `"x" is no number of a revision; kubectl holdfast history lists them`,
		"revision=0": `"0" is no number of a revision; kubectl holdfast history lists them`,
	} {
		if _, _, err := parseCondition(arg); err == nil || err.Error() != want {
			t.Errorf("--for %s: got %v, want %s", arg, err, want)
		}
	}
}
