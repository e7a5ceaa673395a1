package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// verifyOwner checks in the API server, before a child is recreated or its owner reference is
// restored, that the owner still exists with the known spec. When an owner is deleted, its children
// are deleted or lose their references, and the cache may show that before the deletion of the
// owner.
func (a *Applier) verifyOwner(ctx context.Context, owner desired.Owner, id desired.ID) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	err := a.apiReader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	if live.UID != owner.UID || live.DeletionTimestamp != nil || owner.Generation != 0 && live.Generation != owner.Generation {
		return staleError(owner, id)
	}
	return nil
}
