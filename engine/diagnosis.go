package engine

import (
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
)

// snapshot is what we know about a component.
func (o *observed) snapshot(c desired.Component, res *result, pods []*corev1.Pod) explain.Snapshot {
	s := explain.Snapshot{Pods: pods}
	for _, child := range c.Children {
		if obj, ok := res.children[child.ID].(runtime.Object); ok {
			s.Add(obj)
		}
	}
	for _, k := range o.retainedObjects {
		if k.Claim != nil && k.WorkloadID() == c.WorkloadID {
			s.Claims = append(s.Claims, k.Claim)
		}
	}
	for _, ref := range o.missingRefs[c.Name] {
		s.MissingRefs = append(s.MissingRefs, explain.Ref{Kind: ref.Kind, Name: ref.Name})
	}
	return s
}

// diagnose says why a component is not ready, with the events of one object if these tell
// more. What is only worth knowing is not the operator's to tell.
func (r *reconciler[T]) diagnose(ctx context.Context, app client.Object, s explain.Snapshot, now time.Time) explain.Diagnosis {
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
	a.Causes = slices.DeleteFunc(a.Causes, func(c explain.Cause) bool { return c.Severity != explain.Error })
	return a
}

// rejectionCauses are why the API server does not take children, and who keeps changing them.
func rejectionCauses(res *result) []explain.Cause {
	var all []explain.Cause
	for _, id := range slices.SortedFunc(maps.Keys(res.childErrs), compareIDs) {
		if c, ok := rejectionCause(res.namespace, id, res.childErrs[id]); ok {
			all = append(all, c)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(res.contended), compareIDs) {
		all = append(all, explain.Cause{Code: explain.FieldConflict, Object: explainObject(res.namespace, id), Message: contentionMessage(res.namespace, id)})
	}
	return all
}

// rejectionCause explains why the API server does not take a child, if it said so in words that
// are known.
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
