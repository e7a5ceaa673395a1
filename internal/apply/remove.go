package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Remove deletes a child that is not wanted any more, exactly as it was seen. It stays
// visible until its pods have ended. What is not ours is left alone; whether the wish is
// still current is the caller's to know.
func (a *Applier) Remove(ctx context.Context, owner desired.Owner, id desired.ID, current client.Object) (removed bool, err error) {
	if !metav1.IsControlledBy(current, &metav1.ObjectMeta{UID: owner.UID}) {
		return false, nil
	}
	propagation := metav1.DeletePropagationBackground
	if id.HasPods() {
		propagation = metav1.DeletePropagationForeground
	}
	uid, resourceVersion := current.GetUID(), current.GetResourceVersion()
	err = a.writer.Delete(ctx, current, client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion},
		client.PropagationPolicy(propagation))
	switch {
	case apierrors.IsNotFound(err):
		return false, nil // gone already, which is what was wanted
	case apierrors.IsConflict(err):
		return false, stale(owner, id)
	case err != nil:
		return false, fmt.Errorf("delete %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	a.childCache.dropDeleted(key{id, owner.Namespace}, owner.UID, uid)
	return true, nil
}

// ObserveDeleted tells that the cache saw a child go.
func (a *Applier) ObserveDeleted(child client.Object, kind schema.GroupVersionKind) {
	owner := types.UID(child.GetLabels()[appsapi.LabelOwnerUID])
	a.childCache.dropDeleted(key{desired.ID{Kind: kind, Name: child.GetName()}, child.GetNamespace()}, owner, child.GetUID())
}

// ForgetOwner drops what is remembered of the children of an owner that is gone.
func (a *Applier) ForgetOwner(owner types.UID) { a.childCache.dropOwner(owner) }
