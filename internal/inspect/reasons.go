package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// addComponentReasons adds the reasons that the operator reports for components, such as conflicting data, to
// the causes of these components: only the operator knows them.
func (v *View) addComponentReasons(in Input) {
	if in.Stack == nil || v.Ready || in.Status.ObservedGeneration != in.App.GetGeneration() {
		return
	}
	for _, s := range in.Stack.Components {
		c := v.Component(s.Name)
		if c == nil || s.Health != string(health.Degraded) || s.Reason == "" || slices.Contains(transientReasons, s.Reason) || slices.Contains(explainedReasons, s.Reason) {
			continue
		}
		if c.hasCode(explain.Code(s.Reason)) {
			continue // found in the failed writes of its children
		}
		message := strings.TrimPrefix(s.Message, fmt.Sprintf("Component %q: ", s.Name))
		if c.topError() == nil {
			c.Health, c.Message = health.Degraded, message
		}
		cause := v.reasonCause(in, s.Reason, message)
		cause.Path = fmt.Sprintf("status.components[?(@.name==%q)]", s.Name)
		at := slices.IndexFunc(c.Causes, func(x explain.Cause) bool { return x.Severity != explain.Error })
		if at < 0 {
			at = len(c.Causes)
		}
		c.Causes = slices.Insert(c.Causes, at, cause)
	}
}

// addReportedProgress shows components as progressing that the operator reports as such, although their objects are
// healthy: the operator has not confirmed it yet, so the application is not ready either.
func (v *View) addReportedProgress(in Input) {
	if v.Ready || in.Status.ObservedGeneration != in.App.GetGeneration() {
		return
	}
	setProgressing := func(c *Component, message string) {
		if c != nil && c.Health == health.Healthy {
			c.Health, c.Message = health.Progressing, strings.TrimPrefix(message, fmt.Sprintf("Component %q: ", c.Name))
		}
	}
	if in.Stack == nil {
		if len(v.Components) == 1 && v.Reason == appsapi.ReasonProgressing {
			setProgressing(&v.Components[0], v.Message)
		}
		return
	}
	for _, s := range in.Stack.Components {
		if s.Health == string(health.Progressing) && s.Reason == appsapi.ReasonProgressing {
			setProgressing(v.Component(s.Name), s.Message)
		}
	}
}

// addSuspended adds the suspension of the whole application as a cause, so that no component seems to be the reason.
func (v *View) addSuspended(in Input) {
	if v.Reason != appsapi.ReasonSuspended || slices.ContainsFunc(v.Components, func(c Component) bool { return !c.Suspended }) {
		return
	}
	v.Causes = append(v.Causes, explain.Cause{
		Code: explain.Suspended, Severity: explain.Notice, Object: appRef(in), Path: "spec.suspend", Value: "true", Since: v.Since, Message: v.Message,
		Fix: fmt.Sprintf("Resume it: kubectl holdfast resume %s/%s -n %s", strings.ToLower(in.Kind), v.Name, v.Namespace),
	})
}

// nextSentence matches the end of a sentence that is followed by the next step.
var nextSentence = regexp.MustCompile(`\. [A-Z]`)

// reasonCause returns a reason of the operator as a cause. The messages of reasons end with the next step, which
// is the fix if it is a sentence of its own.
func (v *View) reasonCause(in Input, reason, message string) explain.Cause {
	c := explain.Cause{
		Code: explain.Code(reason), Object: appRef(in), Path: `status.conditions[?(@.type=="Ready")]`, Value: reason, Since: v.Since, Message: message,
	}
	if reason == appsapi.ReasonInvalidSpec {
		return c // each sentence is a problem of its own, with its fix
	}
	if end := nextSentence.FindStringIndex(message); end != nil {
		c.Message, c.Fix = message[:end[0]], message[end[0]+2:]
	}
	return c
}
