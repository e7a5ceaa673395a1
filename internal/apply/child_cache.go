package apply

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

const (
	// cacheLagTolerance is how long the response to a write may be newer than the cache. After that
	// time the cache is trusted: a create-only apply is safe anyway.
	cacheLagTolerance = 10 * time.Second

	// Limits for repairs of one object: contention between two controllers must not overload the
	// API server.
	repairBurst     = 5
	repairPerSecond = 1
)

// key identifies a child in its namespace.
type key struct {
	desired.ID
	Namespace string
}

// childCache contains state of children that the informer cache does not have, such as responses to
// writes, conflicts and rejections. It saves requests. Losing it in a restart is safe.
type childCache struct {
	mu     sync.Mutex
	owners map[types.UID]map[key]*entry
}

type entry struct {
	// The last response of the API server.
	uid             types.UID
	fingerprint     string
	resourceVersion string
	generation      int64
	metadataHash    uint64
	divergence      divergence
	// inputHash identifies the inputs of the configuration if the object matched it; 0 otherwise.
	inputHash uint64

	// desiredGeneration is the last generation in which we changed the pods.
	desiredGeneration int64

	// latest is newer than the cache; nil once the cache has caught up.
	latest   client.Object
	latestAt time.Time

	// nameConflict is set while an object of another owner has the name of the child. The cache
	// does not contain that object. nameConflictAt is the time of the last check.
	nameConflict   *ownership.NameConflict
	nameConflictAt time.Time

	repairs   *rate.Limiter
	contended bool // repairs are delayed

	rejection *rejection // nil if the last write was accepted

	fieldConflict *fieldConflict // the last conflict, see knownFieldConflict

	createOutcomeUnknown bool // the response to the creation was lost, so the child may exist

	removed bool // we deleted the child, so that its next creation corrects no drift

	driftManagers   []string // of drift that was observed and is not repaired yet
	driftObservedAt time.Time
}

// divergence is how a response differs from the configuration, see fieldmanager.Compare.
type divergence struct{ fields, metadata string }

// entry returns the entry of a child. The caller holds the lock.
func (cc *childCache) entry(k key, owner types.UID) *entry {
	children := cc.owners[owner]
	if children == nil {
		children = map[key]*entry{}
		cc.owners[owner] = children
	}
	e := children[k]
	if e == nil {
		e = &entry{}
		children[k] = e
	}
	return e
}

// newest returns the cached object or our last response, whichever is later.
func (cc *childCache) newest(k key, owner types.UID, cached client.Object, now time.Time) client.Object {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.owners[owner][k]
	if e == nil || e.latest == nil {
		return cached
	}
	if now.Sub(e.latestAt) > cacheLagTolerance || cached != nil && !isOlder(cached, e.latest) {
		e.latest = nil
		return cached
	}
	return e.latest
}

// notYetCached returns the children of an owner that were written and that the cache may not show
// yet.
func (cc *childCache) notYetCached(owner types.UID) []desired.ID {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	var ids []desired.ID
	for k, e := range cc.owners[owner] {
		if e.latest != nil {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// isOlder reports whether a has an older resourceVersion than b.
func isOlder(a, b client.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// recordApplied records the response to an apply.
func (cc *childCache) recordApplied(k key, owner types.UID, config *desired.Config, applied client.Object, applyDivergence divergence, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.storeMatch(config, applied, applyDivergence)
	e.latest, e.latestAt, e.nameConflict, e.removed = applied, now, nil, false
}

// recordWritten records the response to a create or patch request that is not an apply.
func (cc *childCache) recordWritten(k key, owner types.UID, written client.Object, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if e.uid != written.GetUID() { // comparisons with a replaced object do not count
		e.fingerprint, e.generation, e.inputHash = "", 0, 0
	}
	e.uid, e.latest, e.latestAt = written.GetUID(), written, now
}

// recordOwned records the UID of a child that the cache shows.
func (cc *childCache) recordOwned(k key, owner, uid types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if e := cc.entry(k, owner); e.uid == "" {
		e.uid = uid
	}
}

// storeMatch records that live matches the configuration.
func (e *entry) storeMatch(config *desired.Config, live client.Object, applyDivergence divergence) {
	e.uid, e.resourceVersion, e.generation, e.metadataHash = live.GetUID(), live.GetResourceVersion(), generation(live), metadataHash(live)
	e.fingerprint, e.divergence, e.inputHash = config.Fingerprint(), applyDivergence, 0
}

// markInSync records that the configuration rendered from these inputs matches the object of the
// last comparison.
func (cc *childCache) markInSync(k key, owner types.UID, inputHash uint64) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).inputHash = inputHash
}

// inSync reports whether live matches the configuration rendered from these inputs, because live
// and the inputs have not changed since the last comparison. Changes of the status do not count
// unless rendering depends on the status.
func (cc *childCache) inSync(keys *appsapi.Keys, k key, owner types.UID, inputHash uint64, live client.Object) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.owners[owner][k]
	if e == nil || inputHash == 0 || e.inputHash != inputHash || e.uid != live.GetUID() {
		return false
	}
	return e.resourceVersion == live.GetResourceVersion() ||
		e.generation != 0 && e.generation == generation(live) && e.metadataHash == metadataHash(live) && !desired.RenderUsesStatus(keys, live)
}

// unchangedSinceComparison reports which parts of live are unchanged since the last comparison with this
// configuration: the whole object, or at least the spec. previous is the result of that comparison.
func (cc *childCache) unchangedSinceComparison(k key, owner types.UID, config *desired.Config, live client.Object) (unchanged, specUnchanged bool, previous divergence) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if e.uid != live.GetUID() || e.fingerprint != config.Fingerprint() {
		return false, false, divergence{}
	}
	return e.resourceVersion == live.GetResourceVersion(), e.generation != 0 && e.generation == generation(live), e.divergence
}

// sameFingerprint reports whether the same configuration was applied to this object before.
func (cc *childCache) sameFingerprint(k key, owner types.UID, config *desired.Config, live client.Object) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.uid == live.GetUID() && e.fingerprint == config.Fingerprint()
}

// recordMatching records that live has changed but still matches the configuration.
func (cc *childCache) recordMatching(k key, owner types.UID, config *desired.Config, live client.Object, applyDivergence divergence) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).storeMatch(config, live, applyDivergence)
}

func (cc *childCache) setNameConflict(k key, owner types.UID, conflict *ownership.NameConflict, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.nameConflict, e.nameConflictAt = conflict, now
}

// nameConflict returns the last known name conflict, and whether the last check was recent:
// reconciles that are triggered by pod events must not check again.
func (cc *childCache) nameConflict(k key, owner types.UID, now time.Time) (conflict *ownership.NameConflict, fresh bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.nameConflict, e.nameConflict != nil && !e.nameConflict.Incompatible && now.Sub(e.nameConflictAt) < cacheLagTolerance
}

// allowRepair takes a token from the rate limiter of an object. If no token is left, it returns how
// long to wait, and whether the contention starts now.
func (cc *childCache) allowRepair(k key, owner types.UID, now time.Time) (wait time.Duration, contentionStarted bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if e.repairs == nil {
		e.repairs = rate.NewLimiter(repairPerSecond, repairBurst)
	}
	e.endContention(now)
	if e.repairs.AllowN(now, 1) {
		return 0, false
	}
	contentionStarted, e.contended = !e.contended, true
	missingTokens := 1 - e.repairs.TokensAt(now)
	return time.Duration(missingTokens*float64(time.Second)/repairPerSecond) + time.Millisecond, contentionStarted
}

// contentionRemaining returns how long an object must stay unchanged until the rate limiter is full
// again and the contention ends. The result is 0 without a contention.
func (cc *childCache) contentionRemaining(k key, owner types.UID, now time.Time) time.Duration {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	missingTokens := e.endContention(now)
	if !e.contended {
		return 0
	}
	return time.Duration(missingTokens*float64(time.Second)/repairPerSecond) + time.Millisecond
}

// endContention returns how many tokens of the rate limiter are missing, and ends the contention if
// none is missing.
func (e *entry) endContention(now time.Time) (missingTokens float64) {
	if e.repairs == nil {
		return 0
	}
	missingTokens = repairBurst - e.repairs.TokensAt(now)
	if missingTokens <= 0 {
		e.contended = false
	}
	return missingTokens
}

// updateDesiredGeneration records and returns the generation that contains our pod template.
// previous is nil for a new object. The generation also increases for changes that do not affect
// the pods, such as annotations that other clients set.
func (cc *childCache) updateDesiredGeneration(k key, owner types.UID, previous, now client.Object) int64 {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if now != nil && (previous == nil || e.desiredGeneration == 0 || health.AffectsPods(previous, now)) {
		e.desiredGeneration = now.GetGeneration()
	}
	return e.desiredGeneration
}

// resetDesiredGeneration discards the recorded generation, so that the generation of the next
// observed object is recorded.
func (cc *childCache) resetDesiredGeneration(k key, owner types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).desiredGeneration = 0
}

// wasOwned reports whether this child was written or observed before.
func (cc *childCache) wasOwned(k key, owner types.UID) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.entry(k, owner).uid != ""
}

// mayExist reports whether wasOwned is true, or the outcome of a creation is unknown.
func (cc *childCache) mayExist(k key, owner types.UID) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.uid != "" || e.createOutcomeUnknown
}

// wasRemoved reports whether the last known version of this child was deleted by us.
func (cc *childCache) wasRemoved(k key, owner types.UID) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.entry(k, owner).removed
}

// markRemoved records that we delete a child.
func (cc *childCache) markRemoved(k key, owner types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).removed = true
}

// dropDeleted drops the recorded response for an object that the cache shows as deleted.
func (cc *childCache) dropDeleted(k key, owner, uid types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if e := cc.owners[owner][k]; e != nil && e.latest != nil && e.latest.GetUID() == uid {
		e.latest = nil
	}
}

// dropOwner drops all entries of an owner.
func (cc *childCache) dropOwner(owner types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	delete(cc.owners, owner)
}
