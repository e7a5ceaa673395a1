package engine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/managercache"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete

// A set whose volumes grow is deleted without its pods, and the next one takes them. When its
// component leaves the spec between the two, or the application goes, there is no next one: the
// pods would run on for ever, and nobody would say so.

// deleteOrphans deletes the pods that use a claim of ours which no component has any more, and which
// no set has either, and what told others how to get into it. A pod with our labels and the claim
// that no set would take stays: somebody looks at something.
func (r *reconciler[T]) deleteOrphans(ctx context.Context, app T, owner desired.Owner, k desired.RetainedObject) (deleted bool, err error) {
	if k.Claim == nil || k.GetLabels()[appsapi.LabelOwnerUID] != string(owner.UID) {
		return false, nil
	}
	if found, err := r.hasOrphansInCache(ctx, owner, k); err != nil || !found {
		return false, err
	}
	if set, err := r.findStatefulSet(ctx, owner, k); err != nil || set != "" {
		return false, err
	}
	orphans, err := r.listOrphans(ctx, owner, k)
	if err != nil {
		return false, err
	}
	for _, orphan := range orphans {
		if err := r.verifyAppGeneration(ctx, app); err != nil {
			return false, err
		}
		uid, version := orphan.GetUID(), orphan.GetResourceVersion()
		err := r.client.Delete(ctx, orphan, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete %s, which a StatefulSet has left behind: %w", klog.KObj(orphan), err)
		}
	}
	return len(orphans) > 0, nil
}

// hasOrphansInCache looks in the cache: hardly ever is there anything.
func (r *reconciler[T]) hasOrphansInCache(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (bool, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(owner.Namespace), client.MatchingFields{managercache.IndexWorkload: k.WorkloadID()}); err != nil {
		return false, fmt.Errorf("list pods of %s: %w", k, err)
	}
	binding := managercache.PartialMetadata(desired.RefSecret)
	err := r.client.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: desired.BindingSecretName(k)}, binding)
	return len(pods.Items) > 0 || binding.Labels[appsapi.LabelOwnerUID] == string(owner.UID), client.IgnoreNotFound(err)
}

// listOrphans are what the API server has of it.
func (r *reconciler[T]) listOrphans(ctx context.Context, owner desired.Owner, k desired.RetainedObject) ([]client.Object, error) {
	var out []client.Object
	var pods corev1.PodList
	if err := r.apiReader.List(ctx, &pods, client.InNamespace(owner.Namespace),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelWorkload: k.WorkloadID()}); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", k, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ofSet := strings.HasPrefix(pod.Name, k.StatefulSetName()+"-") && strings.HasSuffix(k.Name, "-"+pod.Name)
		if ofSet && k.UsedBy(pod) && metav1.GetControllerOfNoCopy(pod) == nil && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	binding := managercache.PartialMetadata(desired.RefSecret)
	if err := r.apiReader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: desired.BindingSecretName(k)}, binding); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, desired.BindingSecretName(k), err)
	}
	if binding.Labels[appsapi.LabelOwnerUID] == string(owner.UID) && binding.Labels[appsapi.LabelWorkload] == "" && len(binding.OwnerReferences) == 0 && binding.DeletionTimestamp == nil {
		out = append(out, binding)
	}
	return out, nil
}
