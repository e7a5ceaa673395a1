package reconcile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// setBinding sets the binding of the first database. The binding stays while the database is down.
func setBinding(s *appsapi.StackStatus, components []desired.Component, statuses []ComponentStatus) {
	i := slices.IndexFunc(components, func(c desired.Component) bool { return c.Database != nil })
	switch {
	case i < 0:
		s.Binding = nil
	case statuses[i].Binding != "":
		s.Binding = &appsapi.SecretReference{Name: statuses[i].Binding}
	case s.Binding != nil && s.Binding.Name != components[i].Database.BindingSecret:
		s.Binding = nil
	}
}

func markHealthUnknown(s *appsapi.StackStatus) {
	for i := range s.Components {
		c := &s.Components[i]
		c.Health, c.Reason, c.Message = string(health.Unknown), appsapi.ReasonInternalError, ""
	}
}

// fillStackStatus sets the fields that only kinds with several components have. Without a history, the
// revisions stay: the spec was not applied, and the previous revision keeps running.
func fillStackStatus(s *appsapi.StackStatus, components []ComponentStatus, h *revision.Plan) {
	healthy := 0
	s.Components = nil
	for _, c := range components {
		if c.Health == string(health.Healthy) {
			healthy++
		}
		s.Components = append(s.Components, appsapi.ComponentStatus{
			Name: c.Name, Type: c.Type, ResourceName: c.ResourceName, Health: c.Health,
			Reason: c.Reason, Message: conditions.Trim(c.Message), Ready: c.Ready, Desired: c.Desired, DependsOn: c.DependsOn,
		})
	}
	s.ComponentsReady = fmt.Sprintf("%d/%d", healthy, len(components))
	if h != nil {
		s.CurrentRevision, s.HealthyRevision = revisionNumber(h.Current), revisionNumber(h.Healthy)
	}
}

// revisionNumber returns "" for nil: a rollback to a deleted revision is not possible.
func revisionNumber(r *appsv1.ControllerRevision) string {
	if r == nil {
		return ""
	}
	return strconv.FormatInt(r.Revision, 10)
}

// maxRetained limits the size of the status.
const maxRetained = 32

// retainedStatus lists data that belongs to no component.
func retainedStatus(keys *appsapi.Keys, unused []desired.RetainedObject) []appsapi.Retained {
	var out []appsapi.Retained
	for _, k := range unused {
		if k.GetDeletionTimestamp() == nil && len(out) < maxRetained {
			kind := strings.ToLower(k.Kind.Kind)
			out = append(out, appsapi.Retained{Kind: k.Kind.Kind, Name: k.Name, Component: k.Component(), RemoveCommand: fmt.Sprintf(
				"kubectl annotate %s %s -n %s %s=true && kubectl delete %s %s -n %s",
				kind, k.Name, k.GetNamespace(), keys.ConfirmDelete, kind, k.Name, k.GetNamespace())})
		}
	}
	return out
}
