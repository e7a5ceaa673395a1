package apply

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// driftReadInterval limits the reads that find the managers of drift, per child.
const driftReadInterval = time.Minute

// driftManagers returns the managers that caused the drift of a child, and whether the drift is our own
// earlier write instead, for example by an operator that was the leader before. It reads the child from
// the API server, because the cache has no managedFields, and the repair takes over the drifted fields.
// Errors count as unknown managers: they must not delay the repair.
func (a *Applier) driftManagers(ctx context.Context, owner desired.Owner, id desired.ID, config *desired.Config, current client.Object,
	takenOver []fieldmanager.ForeignField) (managers []string, ownWrite bool) {
	k := key{id, owner.Namespace}
	for _, f := range takenOver {
		managers = append(managers, f.Managers...)
	}
	if len(managers) > 0 { // recorded, because a retry of the repair no longer finds them
		slices.Sort(managers)
		managers = slices.Compact(managers)
		a.childCache.recordDriftManagers(k, owner.UID, managers, a.clock.Now())
		return managers, false
	}
	managers, due := a.childCache.knownDriftManagers(k, owner.UID, a.clock.Now())
	if !due {
		return managers, false
	}
	live, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil || live == nil || live.GetUID() != current.GetUID() {
		return nil, false
	}
	if managers, ownWrite = findDriftManagers(owner, config, live); ownWrite {
		return nil, true
	}
	a.childCache.recordDriftManagers(k, owner.UID, managers, a.clock.Now())
	return managers, ownWrite
}

func findDriftManagers(owner desired.Owner, config *desired.Config, live client.Object) (managers []string, ownWrite bool) {
	drift, err := fieldmanager.Drift(config, live)
	if err != nil {
		return nil, false
	}
	isOurs := func(m objdiff.Manager) bool {
		return m.Name == owner.Keys.FieldManager && m.Operation == string(metav1.ManagedFieldsOperationApply)
	}
	appliedHash := objdiff.Path{}.Field("metadata").Field("annotations").Field(owner.Keys.AppliedHash)
	if live.GetAnnotations()[owner.Keys.AppliedHash] != "" && !config.AppliedTo(live) {
		writers := objdiff.OwnersOf(live.GetManagedFields(), []objdiff.FieldChange{{Path: appliedHash}})
		if len(writers) > 0 && !slices.ContainsFunc(writers, func(m objdiff.Manager) bool { return !isOurs(m) }) {
			return nil, true
		}
	}
	for _, m := range objdiff.OwnersOf(live.GetManagedFields(), drift) {
		if !isOurs(m) && !slices.Contains(managers, m.Name) {
			managers = append(managers, m.Name)
		}
	}
	return managers, false
}

// knownDriftManagers returns the recorded managers, or that they are due to be read.
func (cc *childCache) knownDriftManagers(k key, owner types.UID, now time.Time) (managers []string, due bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.driftManagers, e.driftObservedAt.IsZero() || now.Sub(e.driftObservedAt) >= driftReadInterval
}

func (cc *childCache) recordDriftManagers(k key, owner types.UID, managers []string, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.driftManagers, e.driftObservedAt = managers, now
}

// forgetDriftManagers drops the managers of drift that was repaired. The next drift can have others.
func (cc *childCache) forgetDriftManagers(k key, owner types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).driftManagers = nil
}
