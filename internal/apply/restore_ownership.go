package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// RestoreOwnership restores the owner metadata of a Job or ControllerRevision that is not applied.
// Repairs are rate limited: if another client keeps removing the metadata, the object is returned
// unchanged, and a later reconcile restores the metadata.
func (a *Applier) RestoreOwnership(ctx context.Context, owner desired.Owner, obj client.Object) (client.Object, error) {
	id := desired.ID{Kind: desired.KindJob, Name: obj.GetName()}
	patched := client.Object(&batchv1.Job{})
	if _, ok := obj.(*appsv1.ControllerRevision); ok {
		id.Kind, patched = desired.KindRevision, &appsv1.ControllerRevision{}
	}
	k := key{id, owner.Namespace}
	if wait, _ := a.childCache.allowRepair(k, owner.UID, a.clock.Now()); wait > 0 {
		return obj, nil
	}
	if metav1.GetControllerOfNoCopy(obj) == nil {
		if err := a.verifyOwner(ctx, owner, id); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(),
		"labels": desired.OwnerLabels(owner), "ownerReferences": withOwnerReference(owner, obj.GetOwnerReferences()),
	}})
	if err != nil {
		return nil, err
	}
	patched.SetNamespace(owner.Namespace)
	patched.SetName(obj.GetName())
	err = a.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner.Keys.FieldManager))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), uidMismatch(err):
		return nil, staleError(owner, id)
	case err != nil:
		return nil, fmt.Errorf("restore ownership of %s %s/%s: %w", id.Kind.Kind, owner.Namespace, obj.GetName(), err)
	}
	if revision, ok := patched.(*appsv1.ControllerRevision); ok {
		return a.recordRevision(owner, revision), nil
	}
	patched.SetManagedFields(nil)
	a.childCache.recordWritten(k, owner.UID, patched, a.clock.Now())
	return patched, nil
}

// withOwnerReference returns owner references with the reference to owner added or corrected.
func withOwnerReference(owner desired.Owner, refs []metav1.OwnerReference) []metav1.OwnerReference {
	others := slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool { return r.UID == owner.UID })
	return append(others, desired.OwnerReference(owner))
}
