package apply

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Retained objects are not applied like children: they have no owner and are never recreated. We
// only write labels, annotations and the requested size.

// LabelRetained sets labels on the observed version of a claim or Secret, and removes the retained
// label unless desiredLabels contains it.
func (a *Applier) LabelRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject, desiredLabels map[string]string) error {
	if a.childCache.isCacheStale(key{obj.ID, owner.Namespace}, owner.UID, obj) {
		return nil // already done, but the cache does not show it yet
	}
	labels := map[string]any{owner.Keys.Retained: nil}
	for k, v := range desiredLabels {
		labels[k] = v
	}
	_, err := a.patchRetained(ctx, owner, obj, map[string]any{"labels": labels}, nil)
	return err
}

// AnnotateRetained sets annotations on the observed version of a claim.
func (a *Applier) AnnotateRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject, annotations map[string]string) error {
	if a.childCache.isCacheStale(key{obj.ID, owner.Namespace}, owner.UID, obj) {
		return nil // already done, but the cache does not show it yet
	}
	_, err := a.patchRetained(ctx, owner, obj, map[string]any{"annotations": annotations}, nil)
	return err
}

// ResizeClaim changes the requested size of the observed version of a claim.
func (a *Applier) ResizeClaim(ctx context.Context, owner desired.Owner, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	id := desired.ID{Kind: desired.KindClaim, Name: claim.Name}
	k, fingerprint := key{id, owner.Namespace}, "size "+size.String()
	if a.childCache.isCacheStale(k, owner.UID, claim) {
		return nil
	}
	if err := a.childCache.pendingRejection(k, owner.UID, fingerprint, claim, a.clock.Now()); err != nil {
		return err
	}
	_, err := a.patchRetained(ctx, owner, desired.RetainedClaim(owner.Keys, claim), nil,
		map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": size.String()}}})
	a.childCache.recordWriteResult(k, owner.UID, fingerprint, claim, err, a.clock.Now(), a.MaxBackoff)
	return err
}

// PurgeRetained deletes the observed version of a claim or Secret. The admission policy requires
// the annotation that confirms the deletion.
func (a *Applier) PurgeRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject) error {
	confirmed, err := a.patchRetained(ctx, owner, obj,
		map[string]any{"annotations": map[string]string{owner.Keys.ConfirmDelete: "true"}}, nil)
	if err != nil {
		return err
	}
	uid, version := confirmed.GetUID(), confirmed.GetResourceVersion()
	err = a.writer.Delete(ctx, confirmed, client.Preconditions{UID: &uid, ResourceVersion: &version})
	switch {
	case apierrors.IsConflict(err):
		return staleError(owner, obj.ID)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("delete %s: %w", obj, err)
	}
	return nil
}

func (a *Applier) patchRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject, metadata, spec map[string]any) (*metav1.PartialObjectMetadata, error) {
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	content := map[string]any{"metadata": metadata}
	if spec != nil {
		content["spec"] = spec
	}
	patch, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	patched := &metav1.PartialObjectMetadata{}
	patched.SetGroupVersionKind(obj.Kind)
	patched.Namespace, patched.Name = owner.Namespace, obj.Name
	err = a.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(owner.Keys.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || uidMismatch(err) {
		return nil, staleError(owner, obj.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", obj, err)
	}
	a.childCache.recordWrite(key{obj.ID, owner.Namespace}, owner.UID, patched)
	return patched, nil
}

// recordWrite records the response to a write of a retained object.
func (cc *childCache) recordWrite(k key, owner types.UID, written metav1.Object) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.uid, e.resourceVersion = written.GetUID(), written.GetResourceVersion()
}

// isCacheStale reports whether the cached object is older than our last write.
func (cc *childCache) isCacheStale(k key, owner types.UID, cached metav1.Object) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.owners[owner][k]
	if e == nil || e.uid != cached.GetUID() || e.resourceVersion == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), e.resourceVersion)
	return err == nil && c < 0
}
