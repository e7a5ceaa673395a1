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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// What is kept is not applied like children: it has no owner, is never made again, and of
// it only labels, the size that is asked for and the word that it may go are ours.

// LabelRetained makes a claim or Secret, exactly as it was seen, have labels of ours, and the one
// that says that it is kept on purpose only if that is among them.
func (a *Applier) LabelRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject, desiredLabels map[string]string) error {
	if a.childCache.isCacheStale(key{obj.ID, owner.Namespace}, owner.UID, obj) {
		return nil // done: the cache has yet to show it
	}
	labels := map[string]any{appsapi.LabelRetained: nil}
	for k, v := range desiredLabels {
		labels[k] = v
	}
	_, err := a.patchRetained(ctx, owner, obj, map[string]any{"labels": labels}, nil)
	return err
}

// AnnotateRetained writes annotations of ours on a claim, exactly as it was seen.
func (a *Applier) AnnotateRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject, annotations map[string]string) error {
	if a.childCache.isCacheStale(key{obj.ID, owner.Namespace}, owner.UID, obj) {
		return nil // done: the cache has yet to show it
	}
	_, err := a.patchRetained(ctx, owner, obj, map[string]any{"annotations": annotations}, nil)
	return err
}

// ResizeClaim makes a claim, exactly as it was seen, ask for another size.
func (a *Applier) ResizeClaim(ctx context.Context, owner desired.Owner, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	id := desired.ID{Kind: desired.KindClaim, Name: claim.Name}
	k, fingerprint := key{id, owner.Namespace}, "size "+size.String()
	if a.childCache.isCacheStale(k, owner.UID, claim) {
		return nil
	}
	if err := a.childCache.pendingRejection(k, owner.UID, fingerprint, claim, a.clock.Now()); err != nil {
		return err
	}
	_, err := a.patchRetained(ctx, owner, desired.RetainedObject{ID: id, Object: claim}, nil,
		map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": size.String()}}})
	a.childCache.recordWriteResult(k, owner.UID, fingerprint, claim, err, a.clock.Now(), a.MaxBackoff)
	return err
}

// PurgeRetained deletes a claim or Secret, exactly as it was seen, after it was given the word that
// it may go: without that the admission policy keeps it.
func (a *Applier) PurgeRetained(ctx context.Context, owner desired.Owner, obj desired.RetainedObject) error {
	confirmed, err := a.patchRetained(ctx, owner, obj,
		map[string]any{"annotations": map[string]string{appsapi.AnnotationConfirmDelete: "true"}}, nil)
	if err != nil {
		return err
	}
	uid, version := confirmed.GetUID(), confirmed.GetResourceVersion()
	err = a.writer.Delete(ctx, confirmed, client.Preconditions{UID: &uid, ResourceVersion: &version})
	switch {
	case apierrors.IsConflict(err):
		return stale(owner, obj.ID)
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
	err = a.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(appsapi.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || uidMismatch(err) {
		return nil, stale(owner, obj.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", obj, err)
	}
	a.childCache.recordWrite(key{obj.ID, owner.Namespace}, owner.UID, patched)
	return patched, nil
}

// recordWrite remembers the answer to a write of what is kept.
func (cc *childCache) recordWrite(k key, owner types.UID, written metav1.Object) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.uid, e.resourceVersion = written.GetUID(), written.GetResourceVersion()
}

// isCacheStale says whether what a cache shows is of the time before our last write.
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

// OrphanPods deletes a StatefulSet, exactly as it was seen, and leaves its pods running: the
// one that is made next takes them over.
func (a *Applier) OrphanPods(ctx context.Context, owner desired.Owner, id desired.ID, current client.Object) error {
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil {
		return err
	}
	if live == nil || live.GetUID() != current.GetUID() || live.GetGeneration() != current.GetGeneration() ||
		live.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: owner.UID}) {
		return stale(owner, id)
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	err = a.writer.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	switch {
	case apierrors.IsConflict(err):
		return stale(owner, id)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("delete %s %s/%s without its pods: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	return nil
}
