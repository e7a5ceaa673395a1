package apply

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Revisions are created whole and never applied again: what they remember is immutable,
// and the cache does not keep it.

// CreateRevision stores a revision. One that is there already, of ours and by its name of
// the same spec, is as good: somebody hid it from our cache, and it is given back.
func (a *Applier) CreateRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	err := a.writer.Create(ctx, revision, client.FieldOwner(appsapi.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		live, err := a.get(ctx, a.live, owner.Namespace, desired.ID{Kind: desired.KindRevision, Name: revision.Name})
		if err != nil {
			return nil, err
		}
		if live == nil || !metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: owner.UID}) {
			return nil, fmt.Errorf("create ControllerRevision %s/%s: one of this name exists and is not ours; delete it", owner.Namespace, revision.Name)
		}
		return a.patchRevision(ctx, owner, live.(*appsv1.ControllerRevision), map[string]any{
			"metadata": map[string]any{"labels": revision.Labels}, "revision": revision.Revision,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("create ControllerRevision %s/%s: %w", owner.Namespace, revision.Name, err)
	}
	return a.keepRevision(owner, revision), nil
}

// RenumberRevision gives a revision another number: its spec is the current one again.
func (a *Applier) RenumberRevision(ctx context.Context, owner desired.Owner, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	return a.patchRevision(ctx, owner, revision, map[string]any{"revision": number})
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
