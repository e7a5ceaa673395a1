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
	"github.com/holdfast-dev/holdfast/internal/own"
)

const (
	// patience is how long the answer to a write may be newer than the cache. After that
	// the cache is believed: a create-only apply finds out for certain.
	patience = 10 * time.Second

	// Repairs of one object: two controllers that fight must not melt the API server.
	repairBurst     = 5
	repairPerSecond = 1
)

// key is a child in its namespace.
type key struct {
	desired.ID
	Namespace string
}

// memory is what we know of children beyond the cache. All of it can be lost: it saves
// calls, it decides nothing.
type memory struct {
	mu     sync.Mutex
	owners map[types.UID]map[key]*entry
}

type entry struct {
	// What the last answer of the API server looked like.
	uid             types.UID
	wish            string
	resourceVersion string
	generation      int64
	metadata        uint64
	projected       projection
	// basis is what the wish was made from, if the object was then as we hold it; 0 otherwise.
	basis uint64

	// asked is the generation in which we last changed something for the pods.
	asked int64

	// answer is newer than the cache; nil once the cache has caught up.
	answer client.Object
	at     time.Time

	// foreign is set while the name is somebody else's, which no cache shows; asked at.
	foreign   *own.NameConflict
	foreignAt time.Time

	repairs *rate.Limiter
	fight   bool // repairs are being held back

	refusal *refusal // nil when the last write was accepted

	tried bool // it may have been made: the answer was lost
}

// projection is what an answer had instead of what we sent, see compare.
type projection struct{ fields, metadata string }

// entry returns what is known of a child. The caller holds the lock.
func (m *memory) entry(k key, owner types.UID) *entry {
	children := m.owners[owner]
	if children == nil {
		children = map[key]*entry{}
		m.owners[owner] = children
	}
	e := children[k]
	if e == nil {
		e = &entry{}
		children[k] = e
	}
	return e
}

// newest returns the later of what the cache has and what we were last answered.
func (m *memory) newest(k key, owner types.UID, cached client.Object, now time.Time) client.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.owners[owner][k]
	if e == nil || e.answer == nil {
		return cached
	}
	if now.Sub(e.at) > patience || cached != nil && !older(cached, e.answer) {
		e.answer = nil
		return cached
	}
	return e.answer
}

// unseen are the children of an owner that were answered to a write and that the cache may
// not show yet.
func (m *memory) unseen(owner types.UID) []desired.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []desired.ID
	for k, e := range m.owners[owner] {
		if e.answer != nil {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// older says whether a is an earlier state of the world than b.
func older(a, b client.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// remember keeps the answer to a write.
func (m *memory) remember(k key, owner types.UID, config *desired.Config, answer client.Object, projected projection, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	e.see(config, answer, projected)
	e.answer, e.at, e.foreign = answer, now, nil
}

// keep keeps the answer to a write of something that is not held.
func (m *memory) keep(k key, owner types.UID, answer client.Object, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	if e.uid != answer.GetUID() { // what was found of another object does not count
		e.wish, e.generation, e.basis = "", 0, 0
	}
	e.uid, e.answer, e.at = answer.GetUID(), answer, now
}

// noteOurs notes that a child of ours exists.
func (m *memory) noteOurs(k key, owner, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entry(k, owner); e.uid == "" {
		e.uid = uid
	}
}

// see notes that live is as we hold it.
func (e *entry) see(config *desired.Config, live client.Object, projected projection) {
	e.uid, e.resourceVersion, e.generation, e.metadata = live.GetUID(), live.GetResourceVersion(), generation(live), fingerprint(live)
	e.wish, e.projected, e.basis = config.Wish(), projected, 0
}

// settle notes that live, which was looked at last, is as a wish of this basis holds it.
func (m *memory) settle(k key, owner types.UID, basis uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(k, owner).basis = basis
}

// settled says whether live is as a wish of this basis holds it, because neither has changed
// since that was found out, but for a status that no wish is made of.
func (m *memory) settled(k key, owner types.UID, basis uint64, live client.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.owners[owner][k]
	if e == nil || basis == 0 || e.basis != basis || e.uid != live.GetUID() {
		return false
	}
	return e.resourceVersion == live.GetResourceVersion() ||
		e.generation != 0 && e.generation == generation(live) && e.metadata == fingerprint(live) && !desired.ByStatus(live)
}

// knows says whether live was looked at before with the same wish, and was then as we
// hold it: all of it, or all but its metadata.
func (m *memory) knows(k key, owner types.UID, config *desired.Config, live client.Object) (all, butMetadata bool, last projection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	if e.uid != live.GetUID() || e.wish != config.Wish() {
		return false, false, projection{}
	}
	return e.resourceVersion == live.GetResourceVersion(), e.generation != 0 && e.generation == generation(live), e.projected
}

// wished says whether this object was made the same wish before.
func (m *memory) wished(k key, owner types.UID, config *desired.Config, live client.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	return e.uid == live.GetUID() && e.wish == config.Wish()
}

// noteSame notes that live, which changed, is still as we hold it.
func (m *memory) noteSame(k key, owner types.UID, config *desired.Config, live client.Object, projected projection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(k, owner).see(config, live, projected)
}

func (m *memory) setForeign(k key, owner types.UID, foreign *own.NameConflict, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	e.foreign, e.foreignAt = foreign, now
}

// isForeign returns whose the name was when we last asked, and whether that is fresh: pods
// that come and go wake us, but say nothing about it.
func (m *memory) isForeign(k key, owner types.UID, now time.Time) (taken *own.NameConflict, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	return e.foreign, e.foreign != nil && !e.foreign.Refused && now.Sub(e.foreignAt) < patience
}

// mayRepair takes from the bucket of an object. When it is empty it says how long to
// wait, and whether that is news.
func (m *memory) mayRepair(k key, owner types.UID, now time.Time) (wait time.Duration, news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	if e.repairs == nil {
		e.repairs = rate.NewLimiter(repairPerSecond, repairBurst)
	}
	e.peace(now)
	if e.repairs.AllowN(now, 1) {
		return 0, false
	}
	news, e.fight = !e.fight, true
	missing := 1 - e.repairs.TokensAt(now)
	return time.Duration(missing*float64(time.Second)/repairPerSecond) + time.Millisecond, news
}

// contested says how long nobody may touch an object until the fight over it is over: the
// bucket is full again. It is 0 when there is none.
func (m *memory) contested(k key, owner types.UID, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	missing := e.peace(now)
	if !e.fight {
		return 0
	}
	return time.Duration(missing*float64(time.Second)/repairPerSecond) + time.Millisecond
}

// peace ends a fight when the bucket is full, and returns what it lacks.
func (e *entry) peace(now time.Time) (missing float64) {
	if e.repairs == nil {
		return 0
	}
	missing = repairBurst - e.repairs.TokensAt(now)
	if missing <= 0 {
		e.fight = false
	}
	return missing
}

// asked notes and returns the generation in which our wish for the pods is; before is nil
// for a new object. A generation also counts annotations of others, which change nothing.
func (m *memory) asked(k key, owner types.UID, before, now client.Object) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	if now != nil && (before == nil || e.asked == 0 || health.Moves(before, now)) {
		e.asked = now.GetGeneration()
	}
	return e.asked
}

// unsure forgets in which generation our wish is: the next one that is seen counts.
func (m *memory) unsure(k key, owner types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(k, owner).asked = 0
}

// wasOurs says whether we have written or seen this child before.
func (m *memory) wasOurs(k key, owner types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entry(k, owner).uid != ""
}

// mayHaveBeen says the same, also of a child of which we do not know whether it was made.
func (m *memory) mayHaveBeen(k key, owner types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entry(k, owner)
	return e.uid != "" || e.tried
}

// gone forgets an answer about an object that the cache saw go.
func (m *memory) gone(k key, owner, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.owners[owner][k]; e != nil && e.answer != nil && e.answer.GetUID() == uid {
		e.answer = nil
	}
}

// forget drops everything about the children of an owner.
func (m *memory) forget(owner types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, owner)
}
