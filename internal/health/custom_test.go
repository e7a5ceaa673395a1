package health

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func widget(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	return parseObject(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop, generation: 2}\n"+status)
}

func parseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEvaluateCustom(t *testing.T) {
	cases := map[string]struct {
		status string
		want   Result
	}{
		"empty status": {"status: {}", Result{"Unknown", "InternalError", "Widget shop/w is of a kind without health rules"}},
		"not observed": {"status: {observedGeneration: 1, phase: Ready}",
			Result{"Progressing", "Progressing", "Widget shop/w waits for its controller to observe the latest change"}},
		"ready": {`status: {conditions: [{type: Ready, status: "True"}]}`,
			Result{"Healthy", "Reconciled", "Widget shop/w reports that it is ready"}},
		"not ready": {`status: {conditions: [{type: Ready, status: "False", reason: NoMoney, message: "balance 3"}]}`,
			Result{"Degraded", "ComponentDegraded", "Widget shop/w reports that it is not ready: NoMoney"}},
		"stalled comes first": {`status: {conditions: [{type: Ready, status: "True"}, {type: Stalled, status: "True", reason: Stuck}]}`,
			Result{"Degraded", "ComponentDegraded", "Widget shop/w reports Stalled: Stuck"}},
		"reconciling": {`status: {conditions: [{type: Ready, status: "False"}, {type: Reconciling, status: "True", reason: Working}]}`,
			Result{"Progressing", "Progressing", "Widget shop/w reports Reconciling: Working"}},
		"ready unknown": {`status: {conditions: [{type: Ready, status: "Unknown", reason: Asking}]}`,
			Result{"Progressing", "Progressing", "Widget shop/w reports Ready: Asking"}},
		"failed phase": {"status: {phase: Failed}", Result{"Degraded", "ComponentDegraded", "Widget shop/w reports that it is Failed"}},
		"unknown phase": {"status: {phase: Purple}", Result{"Unknown", "InternalError",
			"Widget shop/w is of a kind without health rules"}},
		"malformed conditions": {`status: {conditions: [1, {type: 3}, "x"]}`,
			Result{"Unknown", "InternalError", "Widget shop/w is of a kind without health rules"}},

		"not ready, no reason": {`status: {conditions: [{type: Ready, status: "False"}]}`,
			Result{"Degraded", "ComponentDegraded", "Widget shop/w reports that it is not ready: no reason given"}},
		"stalled, no reason": {`status: {conditions: [{type: Stalled, status: "True"}]}`,
			Result{"Degraded", "ComponentDegraded", "Widget shop/w reports Stalled: no reason given"}},
		"stalled is False": {`status: {conditions: [{type: Stalled, status: "False", reason: Fine}, {type: Available, status: "True"}]}`,
			Result{"Healthy", "Reconciled", "Widget shop/w reports that it is available"}},
		"healthy phase":     {"status: {phase: Running}", Result{"Healthy", "Reconciled", "Widget shop/w reports that it is Running"}},
		"progressing phase": {"status: {phase: Creating}", Result{"Progressing", "Progressing", "Widget shop/w reports that it is Creating"}},
		"state":             {"status: {state: DEPLOYED}", Result{"Healthy", "Reconciled", "Widget shop/w reports that it is DEPLOYED"}},
		"phase and state": {"status: {phase: Lost, state: ready}",
			Result{"Degraded", "ComponentDegraded", "Widget shop/w reports that it is Lost"}},
		"condition and phase": {`status: {phase: Failed, conditions: [{type: Ready, status: "True"}]}`,
			Result{"Healthy", "Reconciled", "Widget shop/w reports that it is ready"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Evaluate(widget(t, tc.status)); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestDeletedCustomResourceIsProgressing(t *testing.T) {
	rules, err := CompileRules([]Rule{{Group: "example.com", Kind: "Widget", Healthy: "true"}})
	if err != nil {
		t.Fatal(err)
	}
	o := widget(t, `status: {conditions: [{type: Ready, status: "True"}]}`)
	o.SetDeletionTimestamp(new(metav1.Now()))
	want := Result{"Progressing", "Progressing", "Widget shop/w is being deleted"}
	for name, r := range map[string]*Rules{"without rules": nil, "with a rule": rules} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, EvaluateCustom(o, r)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRuleAppliesToItsKindOnly expects the conditions of the object to decide if no rule matches its group and kind.
func TestRuleAppliesToItsKindOnly(t *testing.T) {
	o := widget(t, `status: {conditions: [{type: Ready, status: "True"}]}`)
	fromConditions := Result{"Healthy", "Reconciled", "Widget shop/w reports that it is ready"}
	fromRule := Result{"Degraded", "ComponentDegraded", "Widget shop/w is degraded according to the health rule of its kind"}
	for name, tc := range map[string]struct {
		group, kind string
		want        Result
	}{
		"its kind":      {"example.com", "Widget", fromRule},
		"another kind":  {"example.com", "Gadget", fromConditions},
		"another group": {"example.org", "Widget", fromConditions},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := CompileRules([]Rule{{Group: tc.group, Kind: tc.kind, Degraded: "true"}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, EvaluateCustom(o, rules)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if got, want := rules.Has(o.GroupVersionKind().GroupKind()), tc.want == fromRule; got != want {
				t.Errorf("has a rule: %t, want %t", got, want)
			}
		})
	}
}

func TestCustomRules(t *testing.T) {
	rules, err := CompileRules([]Rule{{
		Group: "example.com", Kind: "Widget",
		Suspended: "object.spec.paused", Degraded: "object.status.lamp == 'red'", Healthy: "object.status.lamp == 'green'",
		Message: "'the lamp is ' + object.status.lamp",
	}})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		status string
		want   Result
	}{
		"healthy":  {"status: {lamp: green}", Result{"Healthy", "Reconciled", "Widget shop/w: the lamp is green"}},
		"degraded": {"status: {lamp: red}", Result{"Degraded", "ComponentDegraded", "Widget shop/w: the lamp is red"}},
		"suspended comes first": {"spec: {paused: true}\nstatus: {lamp: red}",
			Result{"Suspended", "Suspended", "Widget shop/w: the lamp is red"}},
		"missing field": {"status: {}", Result{"Progressing", "Progressing",
			"Widget shop/w is progressing according to the health rule of its kind"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := EvaluateCustom(widget(t, tc.status), rules); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestCompileRulesRejectsInvalid(t *testing.T) {
	for expression, want := range map[string]string{
		"object.status.": "health rule for Widget.example.com, healthy: ERROR",
		"1 + 1":          "has type int; use an expression of type bool",
		"nothing == 3":   "undeclared reference to 'nothing'",
		"":               "health rule for Widget.example.com has no expression",
	} {
		_, err := CompileRules([]Rule{{Group: "example.com", Kind: "Widget", Healthy: expression}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", expression, err, want)
		}
	}
}

func TestCompileRulesRejectsIncompleteRules(t *testing.T) {
	for name, tc := range map[string]struct {
		rule Rule
		want string
	}{
		"no kind": {Rule{Group: "example.com", Healthy: "true"}, "health rule without a kind; set kind"},
		"no status": {Rule{Group: "example.com", Kind: "Widget", Message: "'text'"},
			"health rule for Widget.example.com has no expression; set healthy, progressing, degraded or suspended"},
		"message is not a string": {Rule{Group: "example.com", Kind: "Widget", Healthy: "true", Message: "1"},
			`health rule for Widget.example.com, message: "1" has type int; use an expression of type string`},
		"status is not a bool": {Rule{Group: "example.com", Kind: "Widget", Healthy: "true", Suspended: "'yes'"},
			`health rule for Widget.example.com, suspended: "'yes'" has type string; use an expression of type bool`},
	} {
		t.Run(name, func(t *testing.T) {
			valid := Rule{Group: "example.com", Kind: "Gadget", Healthy: "true"}
			rules, err := CompileRules([]Rule{valid, tc.rule})
			if rules != nil || err == nil || err.Error() != tc.want {
				t.Errorf("got %v and error %v, want %q", rules, err, tc.want)
			}
		})
	}
}

// TestRuleCostIsLimited uses an expression that would take too long.
func TestRuleCostIsLimited(t *testing.T) {
	rules, err := CompileRules([]Rule{{Kind: "Widget", Group: "example.com", Healthy: "object.l.all(a, object.l.all(b, object.l.all(c, object.l.all(d, a + b + c + d >= 0))))"}})
	if err != nil {
		t.Fatal(err)
	}
	o := widget(t, "status: {}")
	var list []any
	for i := range 200 {
		list = append(list, int64(i))
	}
	o.Object["l"] = list
	if got := EvaluateCustom(o, rules); got.Status != Progressing {
		t.Errorf("got %+v", got)
	}
}
