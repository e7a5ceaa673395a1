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

// statusUpdate is what a pass over an object found.
type statusUpdate struct {
	requeueAt time.Time // when silence will have lasted too long
}

// updateStatus judges, writes the status if that is a transition, and then tells.
func (r *reconciler[T]) updateStatus(ctx context.Context, app T, owner desired.Owner, o *observed, res *result) (statusUpdate, error) {
	now, before := r.clock.Now(), app.ApplicationStatus()
	var out statusUpdate
	var states []componentState
	for _, c := range o.components {
		var pods []*corev1.Pod
		if res.observeErr == nil {
			pods, res.observeErr = r.listPods(ctx, app.GetNamespace(), c)
		}
		var diagnosis explain.Diagnosis // nothing, of what could not be seen
		if res.observeErr == nil {
			diagnosis = r.diagnose(ctx, app, o.snapshot(c, res, pods), now)
		}
		v := assessComponent(c, res, diagnosis, before.Causes)
		out.requeueNoLaterThan(v.requeueAt)
		states = append(states, v)
	}
	out.requeueNoLaterThan(o.requeueAt)
	after := computeStatus(before, app.GetGeneration(), states, res, now)
	out.requeueNoLaterThan(stallsAt(after, progressDeadline(states), now))
	if len(res.plan.Steps) > 0 && meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionReady) { // not with hands off
		if err := r.markRevisionHealthy(ctx, owner, o); err != nil {
			return out, err
		}
	}
	if o.transient && before.ObservedGeneration == app.GetGeneration() && res.isNoop() {
		return out, nil
	}
	next := r.nextStatus(app, after, states, o, res.observeErr == nil)
	return out, r.writeStatusAndEvents(ctx, app, next, res, before, after)
}

// updateDeletionStatus says what a deletion waits for.
func (r *reconciler[T]) updateDeletionStatus(ctx context.Context, app T, teardown rollout.Teardown, res *result) (statusUpdate, error) {
	now, before := r.clock.Now(), app.ApplicationStatus()
	s := conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonDeleting, message: "Components are deleted in reverse order", mayStall: true}
	switch failed, ok := failureSummary(nil, res); {
	case ok:
		s.message = failed.message
	case res.observeErr != nil:
		s.message = fmt.Sprintf("The state in the cluster could not be read: %v", res.observeErr)
	case len(teardown.Terminating) > 0:
		s.message = teardown.Terminating[0].Message
	}
	after := computeDeletionStatus(before, app.GetGeneration(), s, now)
	var out statusUpdate
	out.requeueNoLaterThan(stallsAt(after, deletionDeadline, now))
	next := app.DeepCopyObject().(T)
	*next.ApplicationStatus() = *after
	return out, r.writeStatusAndEvents(ctx, app, next, res, before, after)
}

// requeueNoLaterThan notes a time at which to look again.
func (u *statusUpdate) requeueNoLaterThan(t time.Time) {
	if !t.IsZero() && (u.requeueAt.IsZero() || t.Before(u.requeueAt)) {
		u.requeueAt = t
	}
}

// nextStatus is the object with the status that it should have. What could not be seen
// stays as it was said before, but for the health: that is not known.
func (r *reconciler[T]) nextStatus(app T, after *appsapi.ApplicationStatus, states []componentState, o *observed, observeOK bool) T {
	next := app.DeepCopyObject().(T)
	*next.ApplicationStatus() = *after
	stack, _ := any(next).(Stack)
	if !observeOK {
		if stack != nil {
			markHealthUnknown(stack.StackStatus())
		}
		return next
	}
	statesByName := byName(states)
	statuses := make([]ComponentStatus, len(states))
	for i := range states {
		states[i].fillStatus(statesByName)
		statuses[i] = states[i].status
	}
	if stack != nil {
		fillStackStatus(stack.StackStatus(), statuses, o.history)
		stack.StackStatus().Retained = retainedStatus(o)
		setBinding(stack.StackStatus(), o.components, statuses)
	}
	if r.kind.UpdateStatus != nil {
		r.kind.UpdateStatus(next, statuses)
	}
	return next
}

// writeStatusAndEvents writes the status if it is news, and then the events.
func (r *reconciler[T]) writeStatusAndEvents(ctx context.Context, app, next T, res *result, before, after *appsapi.ApplicationStatus) error {
	if r.kind.SummarizeConditions != nil {
		r.kind.SummarizeConditions(next)
	}
	if shouldWriteStatus(app, next) {
		if err := r.writeStatus(ctx, app, next); err != nil {
			return err
		}
	}
	r.events.emit(ctx, app, r.gvk, *res, before, after)
	return nil
}

// setBinding names the binding of the first database. One that was there does not go because the
// database is down.
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

// fillStackStatus writes what kinds with several components show.
func fillStackStatus(s *appsapi.StackStatus, components []ComponentStatus, h history.Plan) {
	healthy := 0
	s.Components = nil
	for _, c := range components {
		if c.Health == string(health.Healthy) {
			healthy++
		}
		s.Components = append(s.Components, appsapi.ComponentStatus{
			Name: c.Name, Type: c.Type, ResourceName: c.ResourceName, Health: c.Health,
			Reason: c.Reason, Message: conditions.Trim(c.Message), Ready: c.Ready, Desired: c.Desired,
		})
	}
	s.ComponentsReady = fmt.Sprintf("%d/%d", healthy, len(components))
	s.CurrentRevision, s.HealthyRevision = revisionNumber(h.Current), revisionNumber(h.Healthy)
}

// revisionNumber is empty when there is no such revision: one that somebody deleted is nothing
// to go back to.
func revisionNumber(r *appsv1.ControllerRevision) string {
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
	patched := r.kind.New()
	patched.SetNamespace(app.GetNamespace())
	patched.SetName(app.GetName())
	err = r.client.Status().Patch(ctx, patched, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(appsapi.FieldManagerStatus))
	if apierrors.IsNotFound(err) {
		return nil // gone: nobody is left to be told
	}
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	patched.SetManagedFields(nil)
	r.ownWrites.record(patched)
	return nil
}

// maxRetained is how many are listed; there may be more.
const maxRetained = 32

// retainedStatus is the data that is kept although no component wants it.
func retainedStatus(o *observed) []appsapi.Retained {
	var out []appsapi.Retained
	for _, k := range o.unusedRetained {
		if k.GetDeletionTimestamp() == nil && len(out) < maxRetained {
			kind := strings.ToLower(k.Kind.Kind)
			out = append(out, appsapi.Retained{Kind: k.Kind.Kind, Name: k.Name, Component: k.Component(), RemoveCommand: fmt.Sprintf(
				"kubectl annotate %s %s -n %s %s=true && kubectl delete %s %s -n %s",
				kind, k.Name, k.GetNamespace(), appsapi.AnnotationConfirmDelete, kind, k.Name, k.GetNamespace())})
		}
	}
	return out
}
