package apply

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

const (
	// cacheLagTolerance is how long the answer to a write may be newer than the cache. After that
	// the cache is believed: a create-only apply finds out for certain.
	cacheLagTolerance = 10 * time.Second

	// Repairs of one object: two controllers that fight must not melt the API server.
	repairBurst     = 5
	repairPerSecond = 1
)

// key is a child in its namespace.
type key struct {
	desired.ID
	Namespace string
}

// childCache is what we know of children beyond the cache. All of it can be lost: it saves
// calls, it decides nothing.
type childCache struct {
	mu     sync.Mutex
	owners map[types.UID]map[key]*entry
}

type entry struct {
	// What the last answer of the API server looked like.
	uid             types.UID
	fingerprint     string
	resourceVersion string
	generation      int64
	metadataHash    uint64
	divergence      divergence
	// inputHash is what the wish was made from, if the object was then as we hold it; 0 otherwise.
	inputHash uint64

	// desiredGeneration is the generation in which we last changed something for the pods.
	desiredGeneration int64

	// latest is newer than the cache; nil once the cache has caught up.
	latest   client.Object
	latestAt time.Time

	// nameConflict is set while the name is somebody else's, which no cache shows; asked at.
	nameConflict   *ownership.NameConflict
	nameConflictAt time.Time

	repairs   *rate.Limiter
	contended bool // repairs are being held back

	rejection *rejection // nil when the last write was accepted

	createOutcomeUnknown bool // it may have been made: the answer was lost
}

// divergence is what an answer had instead of what we sent, see compare.
type divergence struct{ fields, metadata string }

// entry returns what is known of a child. The caller holds the lock.
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

// newest returns the later of what the cache has and what we were last answered.
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

// notYetCached are the children of an owner that were answered to a write and that the cache may
// not show yet.
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

// isOlder says whether a is an earlier state of the world than b.
func isOlder(a, b client.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// recordApplied keeps the answer to a write.
func (cc *childCache) recordApplied(k key, owner types.UID, config *desired.Config, applied client.Object, applyDivergence divergence, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.recordState(config, applied, applyDivergence)
	e.latest, e.latestAt, e.nameConflict = applied, now, nil
}

// recordWritten keeps the answer to a write of something that is not held.
func (cc *childCache) recordWritten(k key, owner types.UID, written client.Object, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if e.uid != written.GetUID() { // what was found of another object does not count
		e.fingerprint, e.generation, e.inputHash = "", 0, 0
	}
	e.uid, e.latest, e.latestAt = written.GetUID(), written, now
}

// recordOwned notes that a child of ours exists.
func (cc *childCache) recordOwned(k key, owner, uid types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if e := cc.entry(k, owner); e.uid == "" {
		e.uid = uid
	}
}

// recordState notes that live is as we hold it.
func (e *entry) recordState(config *desired.Config, live client.Object, applyDivergence divergence) {
	e.uid, e.resourceVersion, e.generation, e.metadataHash = live.GetUID(), live.GetResourceVersion(), generation(live), metadataHash(live)
	e.fingerprint, e.divergence, e.inputHash = config.Fingerprint(), applyDivergence, 0
}

// markInSync notes that live, which was looked at last, is as a wish of this basis holds it.
func (cc *childCache) markInSync(k key, owner types.UID, inputHash uint64) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).inputHash = inputHash
}

// inSync says whether live is as a wish of this basis holds it, because neither has changed
// since that was found out, but for a status that no wish is made of.
func (cc *childCache) inSync(k key, owner types.UID, inputHash uint64, live client.Object) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.owners[owner][k]
	if e == nil || inputHash == 0 || e.inputHash != inputHash || e.uid != live.GetUID() {
		return false
	}
	return e.resourceVersion == live.GetResourceVersion() ||
		e.generation != 0 && e.generation == generation(live) && e.metadataHash == metadataHash(live) && !desired.RenderUsesStatus(live)
}

// compareKnown says whether live was looked at before with the same wish, and was then as we
// hold it: all of it, or all but its metadata.
func (cc *childCache) compareKnown(k key, owner types.UID, config *desired.Config, live client.Object) (unchanged, specUnchanged bool, previous divergence) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if e.uid != live.GetUID() || e.fingerprint != config.Fingerprint() {
		return false, false, divergence{}
	}
	return e.resourceVersion == live.GetResourceVersion(), e.generation != 0 && e.generation == generation(live), e.divergence
}

// sameFingerprint says whether this object was made the same wish before.
func (cc *childCache) sameFingerprint(k key, owner types.UID, config *desired.Config, live client.Object) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.uid == live.GetUID() && e.fingerprint == config.Fingerprint()
}

// recordMatching notes that live, which changed, is still as we hold it.
func (cc *childCache) recordMatching(k key, owner types.UID, config *desired.Config, live client.Object, applyDivergence divergence) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).recordState(config, live, applyDivergence)
}

func (cc *childCache) setNameConflict(k key, owner types.UID, conflict *ownership.NameConflict, now time.Time) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.nameConflict, e.nameConflictAt = conflict, now
}

// nameConflict returns whose the name was when we last asked, and whether that is fresh: pods
// that come and go wake us, but say nothing about it.
func (cc *childCache) nameConflict(k key, owner types.UID, now time.Time) (conflict *ownership.NameConflict, fresh bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.nameConflict, e.nameConflict != nil && !e.nameConflict.Incompatible && now.Sub(e.nameConflictAt) < cacheLagTolerance
}

// allowRepair takes from the bucket of an object. When it is empty it says how long to
// wait, and whether that is news.
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

// contentionRemaining says how long nobody may touch an object until the fight over it is over: the
// bucket is full again. It is 0 when there is none.
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

// endContention ends a fight when the bucket is full, and returns what it lacks.
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

// updateDesiredGeneration notes and returns the generation in which our wish for the pods is; before is nil
// for a new object. A generation also counts annotations of others, which change nothing.
func (cc *childCache) updateDesiredGeneration(k key, owner types.UID, before, now client.Object) int64 {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	if now != nil && (before == nil || e.desiredGeneration == 0 || health.AffectsPods(before, now)) {
		e.desiredGeneration = now.GetGeneration()
	}
	return e.desiredGeneration
}

// resetDesiredGeneration forgets in which generation our wish is: the next one that is seen counts.
func (cc *childCache) resetDesiredGeneration(k key, owner types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.entry(k, owner).desiredGeneration = 0
}

// wasOwned says whether we have written or seen this child before.
func (cc *childCache) wasOwned(k key, owner types.UID) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.entry(k, owner).uid != ""
}

// mayExist says the same, also of a child of which we do not know whether it was made.
func (cc *childCache) mayExist(k key, owner types.UID) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	return e.uid != "" || e.createOutcomeUnknown
}

// dropDeleted forgets an answer about an object that the cache saw go.
func (cc *childCache) dropDeleted(k key, owner, uid types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if e := cc.owners[owner][k]; e != nil && e.latest != nil && e.latest.GetUID() == uid {
		e.latest = nil
	}
}

// dropOwner drops everything about the children of an owner.
func (cc *childCache) dropOwner(owner types.UID) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	delete(cc.owners, owner)
}
