package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete

// A set whose volumes grow is deleted without its pods, and the next one takes them. When its
// component leaves the spec between the two, or the application goes, there is no next one: the
// pods would run on for ever, and nobody would say so.

// endOrphans deletes the pods that use a claim of ours which no component has any more, and which
// no set has either.
func (r *reconciler[T]) endOrphans(ctx context.Context, app T, owner desired.Owner, k desired.Kept) (ended bool, err error) {
	if k.Claim == nil || k.GetLabels()[appsapi.LabelOwnerUID] != string(owner.UID) {
		return false, nil
	}
	if there, err := r.hasPods(ctx, k); err != nil || !there {
		return false, err
	}
	if user, err := r.setOf(ctx, owner, k); err != nil || user != "" {
		return false, err
	}
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(owner.Namespace),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelWorkload: k.Workload()}); err != nil {
		return false, fmt.Errorf("list pods of %s: %w", k, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if metav1.GetControllerOfNoCopy(pod) != nil || pod.DeletionTimestamp != nil || !k.UsedBy(pod) {
			continue
		}
		if err := r.stillSo(ctx, app); err != nil {
			return ended, err
		}
		err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return ended, fmt.Errorf("delete pod %s, which its StatefulSet has left behind: %w", klog.KObj(pod), err)
		}
		ended = true
	}
	return ended, nil
}

// hasPods looks in the cache: hardly ever is there one.
func (r *reconciler[T]) hasPods(ctx context.Context, k desired.Kept) (bool, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(k.GetNamespace()), client.MatchingFields{indexWorkload: k.Workload()}); err != nil {
		return false, fmt.Errorf("list pods of %s: %w", k, err)
	}
	return len(pods.Items) > 0, nil
}
