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

// scene is what we know about a component.
func (o *observed) scene(c desired.Component, done *outcome, pods []*corev1.Pod) explain.Scene {
	s := explain.Scene{Pods: pods}
	for _, child := range c.Children {
		if obj, ok := done.seen[child.ID].(runtime.Object); ok {
			s.Add(obj)
		}
	}
	for _, k := range o.kept {
		if k.Claim != nil && k.Workload() == c.WorkloadID {
			s.Claims = append(s.Claims, k.Claim)
		}
	}
	for _, ref := range o.absent[c.Name] {
		s.Absent = append(s.Absent, explain.Ref{Kind: ref.Kind, Name: ref.Name})
	}
	return s
}

// explained says why a component is not ready, with the events of one object if these tell
// more. What is only worth knowing is not the operator's to tell.
func (r *reconciler[T]) explained(ctx context.Context, app client.Object, s explain.Scene, now time.Time) explain.Answer {
	a := explain.Explain(s, now)
	if len(a.Ask) > 0 {
		heard, next := r.ears.about(ctx, app.GetUID(), a.Ask[0])
		if len(heard) > 0 {
			s.Events = heard
			a = explain.Explain(s, now)
		}
		if a.Again.IsZero() || next.Before(a.Again) {
			a.Again = next
		}
	}
	a.Causes = slices.DeleteFunc(a.Causes, func(c explain.Cause) bool { return c.Severity != explain.Error })
	return a
}

// refusals are why the API server does not take children, and who keeps changing them.
func refusals(done *outcome) []explain.Cause {
	var all []explain.Cause
	for _, id := range slices.SortedFunc(maps.Keys(done.errors), compareIDs) {
		if c, ok := refusalOf(done.namespace, id, done.errors[id]); ok {
			all = append(all, c)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(done.contested), compareIDs) {
		all = append(all, explain.Cause{Code: explain.FieldConflict, Object: objectOf(done.namespace, id), Sentence: quarrel(done.namespace, id)})
	}
	return all
}

// refusalOf explains why the API server does not take a child, if it said so in words that
// are known.
func refusalOf(namespace string, id desired.ID, err error) (explain.Cause, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apply.IsRefused(err) {
		return explain.Cause{}, false
	}
	return explain.Refused(objectOf(namespace, id), answer.Status().Message)
}

func objectOf(namespace string, id desired.ID) explain.Object {
	return explain.Object{Kind: id.Kind.Kind, Namespace: namespace, Name: id.Name}
}
