package health

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// EvaluateCustom evaluates a custom resource: by the health rule for its kind, else by the conditions that
// most controllers write, else by its phase. If none of these applies, it is Unknown.
func EvaluateCustom(o *unstructured.Unstructured, rules *Rules) Result {
	name := describe(o)
	if o.GetDeletionTimestamp() != nil {
		return progressing(name + " is being deleted")
	}
	if v, ok := rules.evaluate(o); ok {
		return v
	}
	if observed, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); found && observed < o.GetGeneration() {
		return progressing(name + " waits for its controller to observe the latest change")
	}
	if v, ok := healthFromConditions(name, o); ok {
		return v
	}
	if v, ok := healthFromPhase(name, o); ok {
		return v
	}
	return unknown(name + " is of a kind without health rules")
}

// Condition types by their meaning. Ready, Stalled and Reconciling are those of kstatus, which Flux, Helm
// and others use.
var (
	healthyConditions     = []string{"Ready", "Available", "Healthy", "Succeeded", "Established", "Programmed", "Synced"}
	degradedConditions    = []string{"Stalled", "Failed", "Degraded", "Error"}
	progressingConditions = []string{"Reconciling", "Progressing"}
)

// healthFromConditions checks bad conditions first. It reports the reason and not the message of a
// condition, because messages can change all the time.
func healthFromConditions(name string, o *unstructured.Unstructured) (Result, bool) {
	all := conditionsOf(o)
	describeCondition := func(c metav1.Condition) string {
		return fmt.Sprintf("%s reports %s: %s", name, c.Type, reasonOrDefault(c.Reason))
	}
	for _, kind := range degradedConditions {
		if c, ok := findCondition(all, kind); ok && c.Status == metav1.ConditionTrue {
			return degraded(appsapi.ReasonComponentDegraded, describeCondition(c)), true
		}
	}
	for _, kind := range progressingConditions {
		if c, ok := findCondition(all, kind); ok && c.Status == metav1.ConditionTrue {
			return progressing(describeCondition(c)), true
		}
	}
	for _, kind := range healthyConditions {
		c, ok := findCondition(all, kind)
		switch {
		case !ok:
		case c.Status == metav1.ConditionTrue:
			return healthy(name + " reports that it is " + strings.ToLower(kind)), true
		case c.Status == metav1.ConditionFalse:
			return degraded(appsapi.ReasonComponentDegraded, fmt.Sprintf("%s reports that it is not %s: %s", name, strings.ToLower(kind),
				reasonOrDefault(c.Reason))), true
		default:
			return progressing(describeCondition(c)), true
		}
	}
	return Result{}, false
}

func reasonOrDefault(reason string) string {
	if reason == "" {
		return "no reason given"
	}
	return reason
}

func findCondition(all []metav1.Condition, kind string) (metav1.Condition, bool) {
	i := slices.IndexFunc(all, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.Condition{}, false
	}
	return all[i], true
}

// conditionsOf reads the conditions, ignoring malformed ones.
func conditionsOf(o *unstructured.Unstructured) []metav1.Condition {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var out []metav1.Condition
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		var c struct {
			Type, Status, Reason string
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"Type": m["type"], "Status": m["status"], "Reason": m["reason"]}, &c) == nil {
			out = append(out, metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason})
		}
	}
	return out
}

// Phases by their usual meaning, in lower case.
var (
	healthyPhases     = []string{"ready", "running", "active", "available", "bound", "succeeded", "complete", "completed", "healthy", "deployed"}
	progressingPhases = []string{"pending", "creating", "provisioning", "updating", "progressing", "deleting", "terminating", "starting"}
	degradedPhases    = []string{"failed", "error", "degraded", "lost"}
)

func healthFromPhase(name string, o *unstructured.Unstructured) (Result, bool) {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if phase == "" {
		phase, _, _ = unstructured.NestedString(o.Object, "status", "state")
	}
	text := fmt.Sprintf("%s reports that it is %s", name, phase)
	switch word := strings.ToLower(phase); {
	case slices.Contains(healthyPhases, word):
		return healthy(text), true
	case slices.Contains(progressingPhases, word):
		return progressing(text), true
	case slices.Contains(degradedPhases, word):
		return degraded(appsapi.ReasonComponentDegraded, text), true
	}
	return Result{}, false
}
