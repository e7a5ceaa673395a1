package inspect

import (
	"fmt"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// notCreated returns the health of components without children if the operator did not apply the spec: the
// spec is invalid, or no operator has observed the application.
func (v *View) notCreated(in Input) *health.Result {
	switch {
	case v.Reason == appsapi.ReasonInvalidSpec:
		return new(health.NotCreated())
	case neverObserved(in):
		return &health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: "Not created: no operator has observed it"}
	}
	return nil
}

// neverObserved reports whether the application has no status.
func neverObserved(in Input) bool {
	return in.Status.ObservedGeneration == 0 && len(in.Status.Conditions) == 0
}

// failedWrites returns the failed writes of children that the operator reports: rejections and name
// conflicts. They explain why a child does not exist.
func (v *View) failedWrites(in Input) []explain.Cause {
	var out []explain.Cause
	for _, c := range in.Status.Causes {
		if slices.Contains(operatorOnlyCodes, explain.Code(c.Code)) {
			out = append(out, v.reportedCause(c))
		}
	}
	conflicts := map[string]bool{}
	addConflict := func(reason, message string) {
		if reason == appsapi.ReasonNameConflict && !conflicts[message] {
			conflicts[message] = true
			c := v.reasonCause(in, reason, message)
			out = append(out, explain.Cause{Code: c.Code, Since: c.Since, Message: c.Message, Fix: c.Fix})
		}
	}
	addConflict(v.Reason, v.Message)
	if in.Stack != nil {
		for _, c := range in.Stack.Components {
			addConflict(c.Reason, c.Message)
		}
	}
	return out
}

// failureOf returns the failed write of a missing child, or nil. The message of a name conflict starts
// with the child.
func failureOf(in Input, child desired.ID, failures []explain.Cause) *explain.Cause {
	ref := explain.ObjectRef{Kind: child.Kind.Kind, Namespace: in.App.GetNamespace(), Name: child.Name}
	conflict := fmt.Sprintf("%s %s/%s ", ref.Kind, ref.Namespace, ref.Name)
	i := slices.IndexFunc(failures, func(c explain.Cause) bool {
		return c.Object == ref || c.Object.Kind == "" && strings.HasPrefix(c.Message, conflict)
	})
	if i < 0 {
		return nil
	}
	c := failures[i]
	c.Object = ref
	return &c
}

// reportedCause converts a cause in the status.
func (v *View) reportedCause(c appsapi.Cause) explain.Cause {
	return explain.Cause{
		Code: explain.Code(c.Code), Object: explain.ObjectRef{Kind: c.Object.Kind, Namespace: v.Namespace, Name: c.Object.Name},
		Since: c.Since.Time, Message: c.Message,
	}
}
