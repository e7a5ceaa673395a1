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
	"github.com/holdfast-dev/holdfast/internal/own"
)

// Revisions are created whole and never applied again: what they remember is immutable,
// and the cache does not keep it.

// CreateRevision stores a revision. One that is there already, of ours and by its name of
// the same spec, is as good: somebody hid it from our cache, and it is given back.
func (a *Applier) CreateRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	k := key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}
	if taken, fresh := a.memory.isForeign(k, owner.UID, a.clock.Now()); fresh {
		return nil, taken
	}
	if err := a.memory.refused(k, owner.UID, revision.Name, nil, a.clock.Now()); err != nil {
		return nil, err
	}
	if a.memory.mayHaveBeen(k, owner.UID) { // it is gone, and maybe its owner is, too
		if err := a.ownerLives(ctx, owner, k.ID); err != nil {
			return nil, err
		}
	}
	stored, err := a.storeRevision(ctx, owner, k.ID, revision)
	a.memory.noteRefusal(k, owner.UID, revision.Name, nil, err, a.clock.Now(), a.MaxBackoff)
	var taken *own.NameConflict
	errors.As(err, &taken)
	a.memory.setForeign(k, owner.UID, taken, a.clock.Now())
	return stored, err
}

func (a *Applier) storeRevision(ctx context.Context, owner desired.Owner, id desired.ID, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	err := a.writer.Create(ctx, revision, client.FieldOwner(appsapi.FieldManager))
	if err == nil {
		return a.keepRevision(owner, revision), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create ControllerRevision %s/%s: %w", owner.Namespace, revision.Name, err)
	}
	live, err := a.get(ctx, a.live, owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	if live == nil { // gone again
		return nil, stale(owner, id)
	}
	if _, err := own.Claim(owner, id, live); err != nil {
		return nil, err
	}
	return a.claimRevision(ctx, owner, live.(*appsv1.ControllerRevision), map[string]any{
		"metadata": map[string]any{"labels": revision.Labels}, "revision": revision.Revision,
	})
}

// claimRevision changes a revision that may have lost its reference, which it gets back.
func (a *Applier) claimRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, change map[string]any) (*appsv1.ControllerRevision, error) {
	if metav1.GetControllerOfNoCopy(revision) == nil {
		if err := a.ownerLives(ctx, owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name}); err != nil {
			return nil, err
		}
		metadata, _ := change["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["ownerReferences"] = withReference(owner, revision.OwnerReferences)
		change["metadata"] = metadata
	}
	return a.patchRevision(ctx, owner, revision, change)
}

// RenumberRevision gives a revision another number: its spec is the current one again.
func (a *Applier) RenumberRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{"revision": number})
}

// NoteJobs writes on a revision again which jobs are in its spec, unless somebody changes
// that again and again: the next look will do.
func (a *Applier) NoteJobs(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, jobs []string) (*appsv1.ControllerRevision, error) {
	k := key{desired.ID{Kind: desired.KindRevision, Name: revision.Name}, owner.Namespace}
	if wait, _ := a.memory.mayRepair(k, owner.UID, a.clock.Now()); wait > 0 {
		return revision, nil
	}
	var note any // a null takes it away
	if len(jobs) > 0 {
		note = strings.Join(jobs, ",")
	}
	return a.patchRevision(ctx, owner, revision, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{appsapi.AnnotationJobSpec: note}},
	})
}

// MarkHealthy notes on a revision that everything was ready with it.
func (a *Applier) MarkHealthy(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{appsapi.AnnotationHealthy: "true"}},
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
	answer := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revision.Namespace, Name: revision.Name}}
	err = a.writer.Patch(ctx, answer, client.RawPatch(types.MergePatchType, body), client.FieldOwner(appsapi.FieldManager))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, stale(owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name})
	case err != nil:
		return nil, fmt.Errorf("patch ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return a.keepRevision(owner, answer), nil
}

// keepRevision remembers an answer until the cache has it too.
func (a *Applier) keepRevision(owner desired.Owner, answer *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	answer.SetManagedFields(nil)
	answer.Data.Raw = nil
	a.memory.keep(key{desired.ID{Kind: desired.KindRevision, Name: answer.Name}, owner.Namespace}, owner.UID, answer, a.clock.Now())
	return answer
}
