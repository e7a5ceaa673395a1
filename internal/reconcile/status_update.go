package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// updateStatus derives the status of an application, writes it if it changed enough, and emits
// events. It adds deadlines to the scope.
func (r *Reconciler) updateStatus(ctx context.Context, scope *execute.Scope) error {
	app, now, before := scope.App, r.Clock.Now(), scope.App.ApplicationStatus()
	var states []componentState
	for _, c := range scope.Components {
		var pods []*corev1.Pod
		if scope.ObserveErr == nil {
			pods, scope.ObserveErr = execute.ListPods(ctx, r.Cache, app.GetNamespace(), c.WorkloadID)
		}
		var diagnosis explain.Diagnosis // stays empty if the state could not be observed
		if scope.ObserveErr == nil {
			diagnosis = r.diagnose(ctx, app, newSnapshot(scope, c, pods), now)
		}
		v := assessComponent(c, scope, diagnosis, before.Causes)
		scope.RequeueNoLaterThan(v.requeueAt)
		states = append(states, v)
	}
	after := computeStatus(before, app.GetGeneration(), states, scope, now)
	scope.RequeueNoLaterThan(stallsAt(after, progressDeadline(states), now))
	corrections, reportAt := r.drift.due(app.GetUID(), before.Drift, now)
	scope.RequeueNoLaterThan(reportAt)
	scope.DriftCorrections, after.Drift = corrections, addCorrections(before.Drift, corrections)
	if len(scope.Plan.Steps) > 0 && meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionReady) { // not while suspended
		if err := r.MarkRevisionHealthy(ctx, scope); err != nil {
			return err
		}
	}
	if scope.Transient && before.ObservedGeneration == app.GetGeneration() && scope.IsNoop() {
		return nil
	}
	return r.writeStatusAndEvents(ctx, scope, r.nextStatus(scope, after, states), before, after)
}

// updateDeletionStatus reports which objects block a deletion.
func (r *Reconciler) updateDeletionStatus(ctx context.Context, scope *execute.Scope, teardown rollout.Teardown) error {
	now, before := r.Clock.Now(), scope.App.ApplicationStatus()
	s := conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonDeleting,
		message: "Deleting components in reverse dependency order", mayStall: true}
	switch failed, ok := failureSummary(nil, scope); {
	case ok:
		s.message = failed.message
	case scope.ObserveErr != nil:
		s.message = fmt.Sprintf("Cannot read the cluster state: %v", scope.ObserveErr)
	case len(teardown.Terminating) > 0:
		s.message = teardown.Terminating[0].Message
	}
	after := computeDeletionStatus(before, scope.App.GetGeneration(), s, now)
	scope.RequeueNoLaterThan(stallsAt(after, deletionDeadline, now))
	next := deepCopy(scope.App)
	*next.ApplicationStatus() = *after
	return r.writeStatusAndEvents(ctx, scope, next, before, after)
}

func deepCopy(app execute.Application) execute.Application {
	return app.DeepCopyObject().(execute.Application)
}

// nextStatus returns the application with its new status. If the state could not be observed, the
// status keeps its content, except for the health of components, which becomes unknown.
func (r *Reconciler) nextStatus(scope *execute.Scope, after *appsapi.ApplicationStatus, states []componentState) execute.Application {
	next := deepCopy(scope.App)
	*next.ApplicationStatus() = *after
	stack, _ := next.(Stack)
	if scope.ObserveErr != nil {
		if stack != nil {
			markHealthUnknown(stack.StackStatus())
		}
		return next
	}
	if len(states) == 0 { // the components of an invalid spec are unknown
		return next
	}
	statesByName := statesByComponent(states)
	statuses := make([]ComponentStatus, len(states))
	for i := range states {
		states[i].fillStatus(statesByName)
		statuses[i] = states[i].status
	}
	if stack != nil {
		history := &scope.History
		if len(scope.Plan.Steps) == 0 { // the spec was not applied: it is invalid, or everything is suspended
			history = nil
		}
		fillStackStatus(stack.StackStatus(), statuses, history)
		stack.StackStatus().Retained = retainedStatus(scope.Owner.Keys, scope.UnusedRetained)
		setBinding(stack.StackStatus(), scope.Components, statuses)
	}
	if r.kind.UpdateStatus != nil {
		r.kind.UpdateStatus(next, statuses)
	}
	return next
}

// writeStatusAndEvents writes the status if it changed enough, and then the events.
func (r *Reconciler) writeStatusAndEvents(ctx context.Context, scope *execute.Scope, next execute.Application, before, after *appsapi.ApplicationStatus) error {
	if r.kind.SummarizeConditions != nil {
		r.kind.SummarizeConditions(next)
	}
	if shouldWriteStatus(scope.App, next) {
		if err := r.writeStatus(ctx, scope.App, next); err != nil {
			return err
		}
	}
	r.drift.reported(scope.Owner.UID, scope.DriftCorrections, r.Clock.Now())
	r.events.emit(ctx, r.kind.GVK, scope, before, after)
	return nil
}

// writeStatus replaces the status of exactly this application. The patch has no resourceVersion,
// so that other clients that change metadata cause no conflict; observedGeneration names the spec that
// the status describes.
func (r *Reconciler) writeStatus(ctx context.Context, app, next execute.Application) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return fmt.Errorf("read status of %s %s: %w", r.kind.GVK.Kind, klog.KObj(app), err)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": app.GetUID()},
		{"op": "add", "path": "/status", "value": content["status"]},
	})
	if err != nil {
		return fmt.Errorf("encode status of %s %s: %w", r.kind.GVK.Kind, klog.KObj(app), err)
	}
	patched := r.kind.New()
	patched.SetNamespace(app.GetNamespace())
	patched.SetName(app.GetName())
	err = r.client.Status().Patch(ctx, patched, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(r.kind.Keys.FieldManagerStatus))
	if apierrors.IsNotFound(err) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", r.kind.GVK.Kind, klog.KObj(app), err)
	}
	r.OwnWrites.Record(patched)
	return nil
}
