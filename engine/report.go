package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// report is what a pass over an object found.
type report struct {
	again time.Time // when silence will have lasted too long
}

// report judges, writes the status if that is a transition, and then tells.
func (r *reconciler[T]) report(ctx context.Context, app T, owner desired.Owner, o *observed, done *outcome) (report, error) {
	now, before := r.clock.Now(), app.ApplicationStatus()
	var out report
	var views []view
	for _, c := range o.components {
		var pods []*corev1.Pod
		if done.failed == nil {
			pods, done.failed = r.pods(ctx, app.GetNamespace(), c)
		}
		var why explain.Answer // nothing, of what could not be seen
		if done.failed == nil {
			why = r.explained(ctx, app, o.scene(c, done, pods), now)
		}
		v := assess(c, done, why, before.Causes)
		out.sooner(v.again)
		views = append(views, v)
	}
	out.sooner(o.again)
	after := status(before, app.GetGeneration(), views, done, now)
	out.sooner(again(after, deadline(views), now))
	if len(done.plan.Steps) > 0 && meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionReady) { // not with hands off
		if err := r.wasHealthy(ctx, owner, o); err != nil {
			return out, err
		}
	}
	if o.brief && before.ObservedGeneration == app.GetGeneration() && done.nothing() {
		return out, nil
	}
	next := r.nextStatus(app, after, views, o, done.failed == nil)
	return out, r.tell(ctx, app, next, done, before, after)
}

// reportDeletion says what a deletion waits for.
func (r *reconciler[T]) reportDeletion(ctx context.Context, app T, down rollout.Teardown, done *outcome) (report, error) {
	now, before := r.clock.Now(), app.ApplicationStatus()
	s := summary{status: metav1.ConditionFalse, reason: appsapi.ReasonDeleting, message: "Components are deleted in reverse order", waits: true}
	switch failed, ok := failure(nil, done); {
	case ok:
		s.message = failed.message
	case done.failed != nil:
		s.message = fmt.Sprintf("The state in the cluster could not be read: %v", done.failed)
	case len(down.Waits) > 0:
		s.message = down.Waits[0].Why
	}
	after := deletionStatus(before, app.GetGeneration(), s, now)
	var out report
	out.sooner(again(after, deletionDeadline, now))
	next := app.DeepCopyObject().(T)
	*next.ApplicationStatus() = *after
	return out, r.tell(ctx, app, next, done, before, after)
}

// sooner notes a time at which to look again.
func (r *report) sooner(t time.Time) {
	if !t.IsZero() && (r.again.IsZero() || t.Before(r.again)) {
		r.again = t
	}
}

// nextStatus is the object with the status that it should have. What could not be seen
// stays as it was said before, but for the health: that is not known.
func (r *reconciler[T]) nextStatus(app T, after *appsapi.ApplicationStatus, views []view, o *observed, saw bool) T {
	next := app.DeepCopyObject().(T)
	*next.ApplicationStatus() = *after
	stack, _ := any(next).(Stack)
	if !saw {
		if stack != nil {
			forgetHealth(stack.StackStatus())
		}
		return next
	}
	others := byName(views)
	statuses := make([]ComponentStatus, len(views))
	for i := range views {
		views[i].describe(others)
		statuses[i] = views[i].status
	}
	if stack != nil {
		fillStack(stack.StackStatus(), statuses, o.history)
		stack.StackStatus().Retained = retainedData(o)
		bound(stack.StackStatus(), o.components, statuses)
	}
	if r.kind.Report != nil {
		r.kind.Report(next, statuses)
	}
	return next
}

// tell writes the status if it is news, and then the events.
func (r *reconciler[T]) tell(ctx context.Context, app, next T, done *outcome, before, after *appsapi.ApplicationStatus) error {
	if r.kind.Summarize != nil {
		r.kind.Summarize(next)
	}
	if news(app, next) {
		if err := r.writeStatus(ctx, app, next); err != nil {
			return err
		}
	}
	r.events.tell(ctx, app, r.gvk, *done, before, after)
	return nil
}

// bound names the binding of the first database. One that was there does not go because the
// database is down.
func bound(s *appsapi.StackStatus, components []desired.Component, statuses []ComponentStatus) {
	i := slices.IndexFunc(components, func(c desired.Component) bool { return c.Database != nil })
	switch {
	case i < 0:
		s.Binding = nil
	case statuses[i].Binding != "":
		s.Binding = &appsapi.SecretReference{Name: statuses[i].Binding}
	case s.Binding != nil && s.Binding.Name != components[i].Database.Binding:
		s.Binding = nil
	}
}

func forgetHealth(s *appsapi.StackStatus) {
	for i := range s.Components {
		c := &s.Components[i]
		c.Health, c.Reason, c.Message = string(health.Unknown), appsapi.ReasonInternalError, ""
	}
}

// fillStack writes what kinds with several components show.
func fillStack(s *appsapi.StackStatus, components []ComponentStatus, h history.Plan) {
	healthy := 0
	s.Components = nil
	for _, c := range components {
		if c.Health == string(health.Healthy) {
			healthy++
		}
		s.Components = append(s.Components, appsapi.ComponentStatus{
			Name: c.Name, Type: c.Type, ResourceName: c.ResourceName, Health: c.Health,
			Reason: c.Reason, Message: conditions.Trim(c.Message), Ready: c.Ready, Wanted: c.Wanted,
		})
	}
	s.ComponentsReady = fmt.Sprintf("%d/%d", healthy, len(components))
	s.CurrentRevision, s.HealthyRevision = numberOf(h.Current), numberOf(h.Healthy)
}

// numberOf is empty when there is no such revision: one that somebody deleted is nothing
// to go back to.
func numberOf(r *appsv1.ControllerRevision) string {
	if r == nil {
		return ""
	}
	return strconv.FormatInt(r.Revision, 10)
}

// writeStatus replaces the status of exactly this object. It does not insist on the
// resourceVersion: others may be busy with its metadata, and what we say about a
// generation stays true.
func (r *reconciler[T]) writeStatus(ctx context.Context, app, next T) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return fmt.Errorf("read status of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": app.GetUID()},
		{"op": "add", "path": "/status", "value": content["status"]},
	})
	if err != nil {
		return fmt.Errorf("encode status of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	answer := r.kind.New()
	answer.SetNamespace(app.GetNamespace())
	answer.SetName(app.GetName())
	err = r.client.Status().Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(appsapi.FieldManagerStatus))
	if apierrors.IsNotFound(err) {
		return nil // gone: nobody is left to be told
	}
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	answer.SetManagedFields(nil)
	r.written.remember(answer)
	return nil
}

// maxRetained is how many are listed; there may be more.
const maxRetained = 32

// retainedData is the data that is kept although no component wants it.
func retainedData(o *observed) []appsapi.Retained {
	var out []appsapi.Retained
	for _, k := range o.retained {
		if k.GetDeletionTimestamp() == nil && len(out) < maxRetained {
			kind := strings.ToLower(k.Kind.Kind)
			out = append(out, appsapi.Retained{Kind: k.Kind.Kind, Name: k.Name, Component: k.Component(), Remove: fmt.Sprintf(
				"kubectl annotate %s %s -n %s %s=true && kubectl delete %s %s -n %s",
				kind, k.Name, k.GetNamespace(), appsapi.AnnotationConfirmDelete, kind, k.Name, k.GetNamespace())})
		}
	}
	return out
}
