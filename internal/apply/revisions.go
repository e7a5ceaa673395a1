package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Revisions are created and patched, never applied: their data is immutable, and the cache does not
// contain the data.

// CreateRevision stores a revision. An existing revision with the same name has the same spec,
// because the name contains the hash of the spec. The cache does not show a revision without its
// label: CreateRevision restores the label.
func (a *Applier) CreateRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	k := key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}
	if conflict, fresh := a.childCache.nameConflict(k, owner.UID, a.clock.Now()); fresh {
		return nil, conflict
	}
	if err := a.childCache.pendingRejection(k, owner.UID, revision.Name, nil, a.clock.Now()); err != nil {
		return nil, err
	}
	if a.childCache.mayExist(k, owner.UID) { // the revision is gone, and its owner may be gone, too
		if err := a.verifyOwner(ctx, owner, k.ID); err != nil {
			return nil, err
		}
	}
	stored, err := a.storeRevision(ctx, owner, k.ID, revision)
	a.childCache.recordWriteResult(k, owner.UID, revision.Name, nil, err, a.clock.Now(), a.MaxBackoff)
	var conflict *ownership.NameConflict
	errors.As(err, &conflict)
	a.childCache.setNameConflict(k, owner.UID, conflict, a.clock.Now())
	return stored, err
}

func (a *Applier) storeRevision(ctx context.Context, owner desired.Owner, id desired.ID, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	err := a.writer.Create(ctx, revision, client.FieldOwner(owner.Keys.FieldManager))
	if err == nil {
		return a.recordRevision(owner, revision), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create ControllerRevision %s/%s: %w", owner.Namespace, revision.Name, err)
	}
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	if live == nil { // deleted meanwhile
		return nil, staleError(owner, id)
	}
	if _, err := ownership.CheckOwnership(owner, id, live); err != nil {
		return nil, err
	}
	return a.restoreRevision(ctx, owner, live.(*appsv1.ControllerRevision), map[string]any{
		"metadata": map[string]any{"labels": revision.Labels}, "revision": revision.Revision,
	})
}

// restoreRevision patches a revision, and restores its owner reference if another client removed
// the reference.
func (a *Applier) restoreRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, change map[string]any) (*appsv1.ControllerRevision, error) {
	if metav1.GetControllerOfNoCopy(revision) == nil {
		if err := a.verifyOwner(ctx, owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name}); err != nil {
			return nil, err
		}
		metadata, _ := change["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["ownerReferences"] = withOwnerReference(owner, revision.OwnerReferences)
		change["metadata"] = metadata
	}
	return a.patchRevision(ctx, owner, revision, change)
}

// RenumberRevision changes the number of a revision whose spec is current again.
func (a *Applier) RenumberRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{"revision": number})
}

// SetRevisionJobs restores the annotation with the jobs of a revision. Repairs are rate limited: if
// another client keeps changing the annotation, the revision is returned unchanged, and a later
// reconcile restores the annotation.
func (a *Applier) SetRevisionJobs(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, jobs []string) (*appsv1.ControllerRevision, error) {
	k := key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}
	if wait, _ := a.childCache.allowRepair(k, owner.UID, a.clock.Now()); wait > 0 {
		return revision, nil
	}
	var value any // null removes the annotation
	if len(jobs) > 0 {
		value = strings.Join(jobs, ",")
	}
	return a.patchRevision(ctx, owner, revision, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{owner.Keys.JobSpec: value}},
	})
}

// MarkRevisionHealthy records that all components were ready with a revision.
func (a *Applier) MarkRevisionHealthy(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{owner.Keys.RevisionHealthy: "true"}},
	})
}

func (a *Applier) patchRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, change map[string]any) (*appsv1.ControllerRevision, error) {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = revision.UID // fails if the revision was replaced by another one with the same name
	change["metadata"] = metadata
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	patched := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revision.Namespace, Name: revision.Name}}
	err = a.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner.Keys.FieldManager))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, staleError(owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name})
	case err != nil:
		return nil, fmt.Errorf("patch ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return a.recordRevision(owner, patched), nil
}

// recordRevision records a response until the cache shows it.
func (a *Applier) recordRevision(owner desired.Owner, revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	revision.SetManagedFields(nil)
	revision.Data.Raw = nil
	a.childCache.recordWritten(key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}, owner.UID, revision, a.clock.Now())
	return revision
}
