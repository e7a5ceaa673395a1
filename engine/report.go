package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// report is what a pass over an object found.
type report struct {
	again time.Time // when silence will have lasted too long
}

// report judges, writes the status if that is a transition, and then tells.
func (r *reconciler[T]) report(ctx context.Context, app T, components []desired.Component, done outcome) (report, error) {
	now, before := r.clock.Now(), app.ApplicationStatus()
	var out report
	var views []view
	for _, c := range components {
		var pods []*corev1.Pod
		if done.failed == nil {
			pods, done.failed = r.pods(ctx, app.GetNamespace(), c)
		}
		v := assess(c, &done, pods, before.Causes, now)
		if !v.again.IsZero() && (out.again.IsZero() || v.again.Before(out.again)) {
			out.again = v.again
		}
		views = append(views, v)
	}
	after := status(before, app.GetGeneration(), views, &done, now)
	if transition(before, after) {
		if err := r.writeStatus(ctx, app, after, views); err != nil {
			return out, err
		}
	}
	r.events.tell(ctx, app, r.gvk, done, before, after)
	return out, nil
}

// writeStatus replaces the status of exactly this object. It does not insist on the
// resourceVersion: others may be busy with its metadata, and what we say about a
// generation stays true.
func (r *reconciler[T]) writeStatus(ctx context.Context, app T, after *appsapi.ApplicationStatus, views []view) error {
	next := app.DeepCopyObject().(T)
	*next.ApplicationStatus() = *after
	statuses := make([]ComponentStatus, len(views))
	for i, v := range views {
		statuses[i] = v.status
	}
	r.kind.Report(next, statuses)
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
