package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
)

// write applies a configuration that differs from an existing child.
func (a *Applier) write(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, current client.Object, action Action) (Result, error) {
	k := key{id, owner.Namespace}
	fingerprint := config.Fingerprint()
	result, err := a.applyAtVersion(ctx, owner, id, config, current, action)
	a.childCache.recordWriteResult(k, owner.UID, fingerprint, current, err, a.clock.Now(), a.MaxBackoff)
	if apierrors.IsConflict(err) || uidMismatch(err) {
		err = staleError(owner, id)
	}
	if err != nil {
		result.Object, result.Action = current, Unchanged
		return result, err
	}
	a.childCache.forgetDriftManagers(k, owner.UID)
	result.Refs = desired.ChangedRefs(owner.Keys, current, result.Object)
	if fields, err := fieldmanager.Changes(current, result.Object); err == nil { // they only describe the write
		result.Fields = fields
	}
	return result, nil
}

// applyAtVersion applies a configuration if the object still has the observed version.
func (a *Applier) applyAtVersion(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, current client.Object, action Action) (result Result, err error) {
	result.Action = action
	version, takenOver, err := a.resolveUnionConflicts(ctx, owner, id, config, current)
	if err != nil {
		return result, err
	}
	result.TakenOver = takenOver
	if action == Repaired {
		var ownWrite bool
		if result.DriftManagers, ownWrite = a.driftManagers(ctx, owner, id, config, current, takenOver); ownWrite {
			result.Action = Updated
		}
	}
	if config.HoldsPodTemplate() {
		live, err := a.getUnchanged(ctx, owner, id, current.GetUID(), version)
		if err != nil {
			return result, err
		}
		if err := config.SendLivePodTemplate(live); err != nil {
			return result, err
		}
	}
	result.Object, err = a.patch(ctx, owner, id, config, current.GetUID(), version)
	return result, err
}

// getUnchanged reads a child with its managedFields, which the cache does not contain. It returns
// ErrStale if the child has changed.
func (a *Applier) getUnchanged(ctx context.Context, owner desired.Owner, id desired.ID, uid types.UID, version string) (client.Object, error) {
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetUID() != uid || live.GetResourceVersion() != version {
		return nil, staleError(owner, id)
	}
	return live, nil
}
