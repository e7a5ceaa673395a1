package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// newSnapshot collects the objects that can explain why a component is not ready.
func newSnapshot(scope *execute.Scope, c desired.Component, pods []*corev1.Pod) explain.Snapshot {
	s := explain.Snapshot{Keys: scope.Owner.Keys, SpecPath: c.SpecPath, DefaultReadinessProbe: c.DefaultReadinessProbe, Pods: pods}
	for _, child := range c.Children {
		if obj, ok := scope.Children[child.ID].(runtime.Object); ok {
			s.Add(obj)
		}
	}
	for _, k := range scope.Retained {
		if k.Claim != nil && k.WorkloadID() == c.WorkloadID {
			s.Claims = append(s.Claims, k.Claim)
		}
	}
	for _, ref := range scope.MissingRefs[c.Name] {
		s.MissingRefs = append(s.MissingRefs, explain.Ref{Kind: ref.Kind, Name: ref.Name})
	}
	return s
}

// diagnose explains why a component is not ready, using the events of one object if they help.
func (r *Reconciler) diagnose(ctx context.Context, app client.Object, s explain.Snapshot, now time.Time) explain.Diagnosis {
	a := explain.Explain(s, now)
	if len(a.EventsNeeded) > 0 {
		events, next := r.eventReader.eventsFor(ctx, app.GetUID(), a.EventsNeeded[0])
		if len(events) > 0 {
			s.Events = events
			a = explain.Explain(s, now)
		}
		if a.RecheckAt.IsZero() || next.Before(a.RecheckAt) {
			a.RecheckAt = next
		}
	}
	return a
}

// rejectionCauses returns the causes of rejected and contended children.
func rejectionCauses(scope *execute.Scope) []explain.Cause {
	var all []explain.Cause
	for _, id := range slices.SortedFunc(maps.Keys(scope.ChildErrs), compareIDs) {
		if c, ok := rejectionCause(scope.Owner.Namespace, id, scope.ChildErrs[id]); ok {
			all = append(all, c.WithSpecPath(specPathOf(scope, id)))
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(scope.Contended), compareIDs) {
		all = append(all, explain.Cause{Code: explain.FieldConflict, Object: explainObject(scope.Owner.Namespace, id), Message: contentionMessage(scope.Owner.Namespace, id)})
	}
	return all
}

// specPathOf returns the path of the component of a child in the spec; empty if no component declares it.
func specPathOf(scope *execute.Scope, id desired.ID) string {
	for _, c := range scope.Components {
		if slices.ContainsFunc(c.Children, func(child desired.Child) bool { return child.ID == id }) {
			return c.SpecPath
		}
	}
	return ""
}

// rejectionCause explains why the API server rejects a child, if its message is a known one.
func rejectionCause(namespace string, id desired.ID, err error) (explain.Cause, bool) {
	var apiStatus apierrors.APIStatus
	if !errors.As(err, &apiStatus) || !apply.IsRejected(err) {
		return explain.Cause{}, false
	}
	return explain.RejectedCause(explainObject(namespace, id), apiStatus.Status().Message)
}

func explainObject(namespace string, id desired.ID) explain.ObjectRef {
	return explain.ObjectRef{Kind: id.Kind.Kind, Namespace: namespace, Name: id.Name}
}

func compareIDs(a, b desired.ID) int {
	return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
}
