package retained

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// AdoptableClaims returns an error if a claim that new pods will use belongs to another owner: a
// StatefulSet would use it without a warning. It returns the claims that have the adopt annotation
// and must be labeled, because a StatefulSet labels only the claims that it creates.
func (r Reader) AdoptableClaims(ctx context.Context, owner desired.Owner, c desired.Component, names []string) (adoptable []desired.RetainedObject, err error) {
	for _, name := range names {
		existing := &metav1.PartialObjectMetadata{}
		existing.SetGroupVersionKind(desired.KindClaim)
		switch err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: name}, existing); {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("get PersistentVolumeClaim %s/%s: %w", owner.Namespace, name, err)
		case err != nil:
		case existing.Annotations[owner.Keys.Adopt] == "true":
			if existing.Labels[owner.Keys.Workload] != c.WorkloadID || existing.Labels[owner.Keys.OwnerUID] != string(owner.UID) {
				adoptable = append(adoptable, desired.RetainedClaimMetadata(owner.Keys, existing))
			}
		case existing.Labels[appsapi.LabelManagedBy] == appsapi.ManagedBy && existing.Labels[owner.Keys.Workload] != "": // not in the cache yet
			return nil, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", owner.Namespace, name, apply.ErrStale)
		default:
			return nil, ownership.NewClaimNameConflict(owner, name)
		}
	}
	return adoptable, nil
}
