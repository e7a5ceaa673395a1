package retained

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// FindUser names the StatefulSet or pod that uses an object, or returns "".
func (r Reader) FindUser(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (string, error) {
	if set, err := r.findStatefulSet(ctx, owner, k); err != nil || set != "" {
		return set, err
	}
	var pods corev1.PodList
	if err := r.APIReader.List(ctx, &pods, client.InNamespace(owner.Namespace)); err != nil {
		return "", fmt.Errorf("list pods of namespace %s: %w", owner.Namespace, err)
	}
	for i := range pods.Items {
		if k.UsedBy(&pods.Items[i]) {
			return "Pod " + pods.Items[i].Name, nil
		}
	}
	return "", nil
}

// findStatefulSet names the StatefulSet that an object belongs to, or returns "".
func (r Reader) findStatefulSet(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (string, error) {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(desired.KindStatefulSet)
	err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: k.StatefulSetName()}, set)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get StatefulSet %s/%s: %w", owner.Namespace, k.StatefulSetName(), err)
	}
	return "StatefulSet " + set.Name, nil
}

// Orphans returns the pods that use a claim after its component and its StatefulSet are gone, and the
// binding Secret of that component. To expand volumes, a StatefulSet is deleted without its pods, and
// the next StatefulSet adopts them. If the component leaves the spec, or the application is deleted,
// between the two, nothing else would delete these pods.
//
// A pod with our labels and the claim that no StatefulSet would adopt is not an orphan, but for example
// a debug pod.
func (r Reader) Orphans(ctx context.Context, owner desired.Owner, k desired.RetainedObject) ([]client.Object, error) {
	if k.Claim == nil || k.GetLabels()[owner.Keys.OwnerUID] != string(owner.UID) {
		return nil, nil
	}
	if found, err := r.mayHaveOrphans(ctx, owner, k); err != nil || !found {
		return nil, err
	}
	if set, err := r.findStatefulSet(ctx, owner, k); err != nil || set != "" {
		return nil, err
	}
	var out []client.Object
	var pods corev1.PodList
	if err := r.APIReader.List(ctx, &pods, client.InNamespace(owner.Namespace),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, owner.Keys.Workload: k.WorkloadID()}); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", k, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ofSet := strings.HasPrefix(pod.Name, k.StatefulSetName()+"-") && strings.HasSuffix(k.Name, "-"+pod.Name)
		if ofSet && k.UsedBy(pod) && metav1.GetControllerOfNoCopy(pod) == nil && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	binding := childkind.NewConfigRefMetadata(desired.RefSecret)
	if err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: desired.BindingSecretName(k)}, binding); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, desired.BindingSecretName(k), err)
	}
	if binding.Labels[owner.Keys.OwnerUID] == string(owner.UID) && binding.Labels[owner.Keys.Workload] == "" && len(binding.OwnerReferences) == 0 && binding.DeletionTimestamp == nil {
		out = append(out, binding)
	}
	return out, nil
}

// mayHaveOrphans checks the cache first, because orphans are rare.
func (r Reader) mayHaveOrphans(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (bool, error) {
	var pods corev1.PodList
	if err := r.Cache.List(ctx, &pods, client.InNamespace(owner.Namespace), client.MatchingFields{childkind.IndexWorkload: k.WorkloadID()}); err != nil {
		return false, fmt.Errorf("list pods of %s: %w", k, err)
	}
	binding := childkind.NewConfigRefMetadata(desired.RefSecret)
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: desired.BindingSecretName(k)}, binding)
	return len(pods.Items) > 0 || binding.Labels[owner.Keys.OwnerUID] == string(owner.UID), client.IgnoreNotFound(err)
}
