package wait

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// newStack returns a ready stack of generation 3.
func newStack(change func(*appsapi.AppStack)) appkind.Application {
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
		notObserved   = "the operator has not observed the latest spec yet; if this takes long, run kubectl holdfast doctor"
		neverObserved = "the operator has not observed it yet; if this takes long, run kubectl holdfast doctor"
		notSuspended  = "suspend is not set in its spec; run kubectl holdfast suspend shop -n prod"
	)
	degraded := func(a *appsapi.AppStack) {
		a.Status.Conditions[0].Status, a.Status.Conditions[0].Message = metav1.ConditionFalse, "Component \"web\" is broken"
	}
	edited := func(a *appsapi.AppStack) { a.Generation = 4 }
	created := func(a *appsapi.AppStack) { a.Status = appsapi.AppStackStatus{} }
	suspend := func(a *appsapi.AppStack, i int) {
		a.Spec.EditOperations(a.Spec.Components[i].Name, func(o *appsapi.ComponentOperations) { o.Suspend = true })
	}
	suspendedAll := func(a *appsapi.AppStack) { a.Spec.Suspend = true }
	cases := map[string]struct {
		condition string
		app       appkind.Application
		want      result
	}{
		"ready":                            {"ready", newStack(nil), result{reached: true, message: "is ready: Everything runs as declared"}},
		"not ready":                        {"ready", newStack(degraded), result{message: `Component "web" is broken`}},
		"ready before the latest change":   {"ready", newStack(edited), result{message: notObserved}},
		"not observed yet":                 {"ready", newStack(created), result{message: neverObserved}},
		"condition of an older generation": {"ready", newStack(func(a *appsapi.AppStack) { a.Status.Conditions[0].ObservedGeneration = 2 }), result{message: "the operator has not updated condition Ready yet"}},
		"no conditions":                    {"ready", newStack(func(a *appsapi.AppStack) { a.Status.Conditions = nil }), result{message: "the operator has not updated condition Ready yet"}},

		"ready during a rotation": {"ready", newStack(func(a *appsapi.AppStack) {
			a.Status.Components = []appsapi.ComponentStatus{{Name: "db", Health: "Healthy", Reason: appsapi.ReasonRotating, Message: "Rotating passwords"}}
		}), result{message: "Rotating passwords"}},
		"suspended":                  {"suspended", newStack(suspendedAll), result{reached: true, message: "is suspended"}},
		"each component suspended":   {"suspended", newStack(func(a *appsapi.AppStack) { suspend(a, 0); suspend(a, 1) }), result{reached: true, message: "is suspended"}},
		"one component suspended":    {"suspended", newStack(func(a *appsapi.AppStack) { suspend(a, 0) }), result{message: notSuspended}},
		"suspended but not observed": {"suspended", newStack(func(a *appsapi.AppStack) { suspendedAll(a); edited(a) }), result{message: notObserved}},

		"not deleted": {"deleted", newStack(nil), result{message: "its deletion has not been requested; run kubectl delete appstack shop -n prod"}},
		"deleting":    {"deleted", newStack(func(a *appsapi.AppStack) { a.DeletionTimestamp = &metav1.Time{} }), result{message: "its deletion is in progress"}},
		"deleting with a message": {"deleted", newStack(func(a *appsapi.AppStack) {
			a.DeletionTimestamp = &metav1.Time{}
			a.Generation = 4
			a.Status.Conditions[0].Reason, a.Status.Conditions[0].Message = "Deleting", `Waits until "web" has ended`
		}), result{message: `Waits until "web" has ended`}},

		"at the revision":            {"revision=5", newStack(nil), result{reached: true, message: "is at revision 5"}},
		"at the revision, not ready": {"revision=5", newStack(degraded), result{reached: true, message: "is at revision 5"}},
		"at an earlier revision":     {"revision=6", newStack(nil), result{message: "revision 5 is applied"}},
		"at a later revision":        {"revision=4", newStack(nil), result{unreachable: true, message: "is already at revision 5, and revision numbers only increase; kubectl holdfast history shop -n prod lists the revisions"}},
		"spec not observed":          {"revision=5", newStack(edited), result{message: notObserved}},
		"no revision yet":            {"revision=1", newStack(func(a *appsapi.AppStack) { a.Status.CurrentRevision = "" }), result{message: "the operator has not reported the applied revision yet"}},
		"AppService":                 {"revision=1", &appsapi.AppService{}, result{unreachable: true, message: "has no revisions: kind AppService has no history; use --for ready"}},
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
		"Ready":      `condition "Ready" is not supported; use --for ready, suspended, deleted or revision=N`,
		"revision":   `invalid revision ""; kubectl holdfast history lists the revisions`,
		"revision=x": `invalid revision "x"; kubectl holdfast history lists the revisions`,
		"revision=0": `invalid revision "0"; kubectl holdfast history lists the revisions`,
	} {
		if _, _, err := parseCondition(arg); err == nil || err.Error() != want {
			t.Errorf("--for %s: got %v, want %s", arg, err, want)
		}
	}
}
