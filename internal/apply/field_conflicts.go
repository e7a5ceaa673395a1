package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
)

// resolveUnionConflicts prepares an apply that the API server would reject because the object has
// fields that exclude ours, such as another type of volume, and returns the resourceVersion of the
// object afterwards. Fields of other managers are taken over only with permission.
func (a *Applier) resolveUnionConflicts(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, current client.Object) (
	version string, takenOver []fieldmanager.ForeignField, err error) {
	want, err := config.Fields()
	if err != nil {
		return "", nil, err
	}
	version = current.GetResourceVersion()
	conflicts, err := fieldmanager.UnionConflicts(want, current)
	if err != nil || len(conflicts) == 0 {
		return version, nil, err
	}
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id) // the cache has no managedFields
	if err != nil {
		return "", nil, err
	}
	if live == nil || live.GetUID() != current.GetUID() {
		return "", nil, staleError(owner, id)
	}
	// The resourceVersion is checked only after this comparison: otherwise a conflict would not be
	// reported while the status keeps changing.
	if conflicts, err = fieldmanager.UnionConflicts(want, live); err != nil {
		return "", nil, err
	}
	foreign, err := fieldmanager.ForeignFields(owner.Keys.FieldManager, conflicts, live.GetManagedFields())
	if err != nil {
		return "", nil, fmt.Errorf("%s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	if len(foreign) > 0 && !fieldmanager.AllowsTakeover(owner.Keys, live) {
		conflict := fieldmanager.NewFieldConflict(owner, id, foreign)
		a.childCache.recordFieldConflict(key{id, owner.Namespace}, owner.UID, config.Fingerprint(), live, conflict, a.clock.Now())
		return "", nil, conflict
	}
	if live.GetResourceVersion() != version {
		return "", nil, staleError(owner, id)
	}
	version, err = a.transferOwnership(ctx, owner, id, live, conflicts)
	if err != nil {
		return "", nil, err
	}
	return version, foreign, nil
}

// transferOwnership makes us the only manager of fields in metadata.managedFields without changing
// their values, and returns the resourceVersion of the object afterwards.
func (a *Applier) transferOwnership(ctx context.Context, owner desired.Owner, id desired.ID, live client.Object, conflicts []fieldmanager.UnionConflict) (string, error) {
	managedFields, changed, err := fieldmanager.TransferFields(owner.Keys.FieldManager, live.GetManagedFields(), id.Kind.GroupVersion().String(), conflicts)
	if err != nil {
		return "", fmt.Errorf("take ownership of fields of %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	if !changed {
		return live.GetResourceVersion(), nil // we are already the only manager, from an earlier spec
	}
	patch, err := json.Marshal([]map[string]any{
		// uid and resourceVersion are preconditions: the API server rejects values that differ from
		// the live object.
		{"op": "replace", "path": "/metadata/uid", "value": live.GetUID()},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/managedFields", "value": managedFields},
	})
	if err != nil {
		return "", err
	}
	err = a.writer.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(owner.Keys.FieldManager))
	if err != nil {
		return "", fmt.Errorf("take ownership of fields of %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	return live.GetResourceVersion(), nil
}

// fieldConflict is a conflict in one version of a child.
type fieldConflict struct {
	err             *fieldmanager.FieldConflict
	at              time.Time
	fingerprint     string
	uid             types.UID
	resourceVersion string
	generation      int64
	metadataHash    uint64
}

// recordFieldConflict records a conflict, because detecting a conflict requires a live read.
func (cc *childCache) recordFieldConflict(k key, owner types.UID, fingerprint string, live client.Object, err *fieldmanager.FieldConflict, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).fieldConflict = &fieldConflict{err: err, at: now, fingerprint: fingerprint, uid: live.GetUID(),
		resourceVersion: live.GetResourceVersion(), generation: generation(live), metadataHash: metadataHash(live)}
}

// knownFailure returns why another apply of the same configuration to the same object would fail.
func (cc *childCache) knownFailure(k key, owner types.UID, fingerprint string, live client.Object, now time.Time) error {
	if err := cc.pendingRejection(k, owner, fingerprint, live, now); err != nil {
		return err
	}
	return cc.knownFieldConflict(k, owner, fingerprint, live, now)
}

// knownFieldConflict returns the recorded conflict of a child. It applies to the recorded version,
// and until cacheLagTolerance has passed also to versions that differ only in the status. After
// that time the API server is read again: the cache has no managedFields, so it does not show that
// the other manager gave up its field.
func (cc *childCache) knownFieldConflict(k key, owner types.UID, fingerprint string, live client.Object, now time.Time) error {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	c := cc.entry(k, owner).fieldConflict
	if c == nil || c.fingerprint != fingerprint || c.uid != live.GetUID() {
		return nil
	}
	sameSpec := c.generation != 0 && c.generation == generation(live) && c.metadataHash == metadataHash(live)
	if c.resourceVersion == live.GetResourceVersion() || sameSpec && now.Sub(c.at) < cacheLagTolerance {
		return c.err
	}
	return nil
}
