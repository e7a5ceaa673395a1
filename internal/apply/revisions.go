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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Revisions are created whole and never applied again: what they remember is immutable,
// and the cache does not keep it.

// CreateRevision stores a revision. One that is there already, of ours and by its name of
// the same spec, is as good: somebody hid it from our cache, and it is given back.
func (a *Applier) CreateRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	k := key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}
	if conflict, fresh := a.childCache.nameConflict(k, owner.UID, a.clock.Now()); fresh {
		return nil, conflict
	}
	if err := a.childCache.pendingRejection(k, owner.UID, revision.Name, nil, a.clock.Now()); err != nil {
		return nil, err
	}
	if a.childCache.mayExist(k, owner.UID) { // it is gone, and maybe its owner is, too
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
	err := a.writer.Create(ctx, revision, client.FieldOwner(appsapi.FieldManager))
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
	if live == nil { // gone again
		return nil, stale(owner, id)
	}
	if _, err := ownership.CheckOwnership(owner, id, live); err != nil {
		return nil, err
	}
	return a.restoreRevision(ctx, owner, live.(*appsv1.ControllerRevision), map[string]any{
		"metadata": map[string]any{"labels": revision.Labels}, "revision": revision.Revision,
	})
}

// restoreRevision changes a revision that may have lost its reference, which it gets back.
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

// RenumberRevision gives a revision another number: its spec is the current one again.
func (a *Applier) RenumberRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{"revision": number})
}

// SetRevisionJobs writes on a revision again which jobs are in its spec, unless somebody changes
// that again and again: the next look will do.
func (a *Applier) SetRevisionJobs(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, jobs []string) (*appsv1.ControllerRevision, error) {
	k := key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}
	if wait, _ := a.childCache.allowRepair(k, owner.UID, a.clock.Now()); wait > 0 {
		return revision, nil
	}
	var value any // a null takes it away
	if len(jobs) > 0 {
		value = strings.Join(jobs, ",")
	}
	return a.patchRevision(ctx, owner, revision, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{appsapi.AnnotationJobSpec: value}},
	})
}

// MarkRevisionHealthy notes on a revision that everything was ready with it.
func (a *Applier) MarkRevisionHealthy(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{appsapi.AnnotationRevisionHealthy: "true"}},
	})
}

func (a *Applier) patchRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, change map[string]any) (*appsv1.ControllerRevision, error) {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = revision.UID // another one of the same name is another one
	change["metadata"] = metadata
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	patched := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revision.Namespace, Name: revision.Name}}
	err = a.writer.Patch(ctx, patched, client.RawPatch(types.MergePatchType, body), client.FieldOwner(appsapi.FieldManager))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, stale(owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name})
	case err != nil:
		return nil, fmt.Errorf("patch ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return a.recordRevision(owner, patched), nil
}

// recordRevision remembers an answer until the cache has it too.
func (a *Applier) recordRevision(owner desired.Owner, revision *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	revision.SetManagedFields(nil)
	revision.Data.Raw = nil
	a.childCache.recordWritten(key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}, owner.UID, revision, a.clock.Now())
	return revision
}
