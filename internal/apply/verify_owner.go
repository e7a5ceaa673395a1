package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// verifyOwner asks the API server before a child is made again or gets its reference back:
// is the owner still there, and its spec the one that we know? When an owner is deleted its
// children go, or lose their references to be kept, and our cache may see that before it
// sees why.
func (a *Applier) verifyOwner(ctx context.Context, owner desired.Owner, id desired.ID) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	err := a.apiReader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	if live.UID != owner.UID || live.DeletionTimestamp != nil || owner.Generation != 0 && live.Generation != owner.Generation {
		return stale(owner, id)
	}
	return nil
}
