package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Remove deletes the observed version of a child. A workload stays visible until its pods have
// terminated. Children of other owners are not deleted; the caller verifies that the spec is
// current.
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
		return false, nil // already gone
	case apierrors.IsConflict(err):
		return false, staleError(owner, id)
	case err != nil:
		return false, fmt.Errorf("delete %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	k := key{id, owner.Namespace}
	a.childCache.markRemoved(k, owner.UID)
	a.childCache.dropDeleted(k, owner.UID, uid)
	return true, nil
}

// ObserveDeleted records that the cache shows a child as deleted.
func (a *Applier) ObserveDeleted(owner types.UID, child client.Object, kind schema.GroupVersionKind) {
	a.childCache.dropDeleted(key{desired.ID{Kind: kind, Name: child.GetName()}, child.GetNamespace()}, owner, child.GetUID())
}

// ForgetOwner drops the cached data about the children of a deleted owner.
func (a *Applier) ForgetOwner(owner types.UID) { a.childCache.dropOwner(owner) }

// OrphanPods deletes the observed version of a StatefulSet with orphan propagation, so its pods
// keep running. The recreated StatefulSet adopts the pods.
func (a *Applier) OrphanPods(ctx context.Context, owner desired.Owner, id desired.ID, current client.Object) error {
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil {
		return err
	}
	if live == nil || live.GetUID() != current.GetUID() || live.GetGeneration() != current.GetGeneration() ||
		live.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: owner.UID}) {
		return staleError(owner, id)
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	err = a.writer.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	switch {
	case apierrors.IsConflict(err):
		return staleError(owner, id)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("delete %s %s/%s without its pods: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	a.childCache.markRemoved(key{id, owner.Namespace}, owner.UID)
	return nil
}

// DeleteOrphan deletes the observed version of a pod or binding Secret that OrphanPods left behind.
func (a *Applier) DeleteOrphan(ctx context.Context, orphan client.Object) error {
	uid, version := orphan.GetUID(), orphan.GetResourceVersion()
	err := a.writer.Delete(ctx, orphan, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete orphan %s/%s of a deleted StatefulSet: %w", orphan.GetNamespace(), orphan.GetName(), err)
	}
	return nil
}
