package engine

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// A probe of a server that does not respond takes up to probeTimeout and delays no other database. Between
// probes there are pings, which cost one login: they notice when all connections are used.
const (
	probeInterval       = 10 * time.Minute
	initialProbeRetry   = time.Second
	maxProbeRetry       = 40 * time.Second
	bindingLostAfter    = 5 * time.Second
	probeTimeout        = 30 * time.Second
	maxConcurrentProbes = 64
	pingInterval        = time.Minute
	// probeGracePeriod is how long a probe may take before the status mentions it. After a restart the operator probes every
	// database, which must not look like progress.
	probeGracePeriod = time.Second
)

// databaseProber probes database servers in the background. A reconcile uses the latest result and is requeued
// when there is a new one.
type databaseProber struct {
	probeFunc    func(context.Context, database.Database) (database.State, error)
	pingFunc     func(context.Context, database.Database, database.State) error
	pingInterval time.Duration
	requeue      func(types.NamespacedName)
	clock        clock.WithDelayedExecution
	slots        chan struct{}
	// ctx is that of the manager: probes stop with it.
	ctx context.Context

	mu     sync.Mutex
	probes map[types.NamespacedName]map[string]*probeState // by application and component
}

// databaseID identifies a database by application and component.
type databaseID struct {
	app       types.NamespacedName
	component string
}

// probeKey is everything that an answer goes by. An answer to another question still counts
// if it is of the same server, at the same address: that does not stop letting people in because a password is on
// its way to another one.
type probeKey struct {
	// pod and since say which start of which server it is, and host where others reach it.
	pod        types.UID
	readySince time.Time
	host       string
	// statefulSetUID is what the binding belongs to.
	statefulSetUID types.UID
	// secretVersions are those of the Secrets that a visit reads, binding that of the one that it writes.
	secretVersions, bindingVersion string
	// spec is what the spec says of it, rolled whether all know the password.
	spec               string
	consumersRolledOut bool
	// consumersBindingVersion is the version of the binding that all know.
	consumersBindingVersion string
}

// sameServer says whether both are about the same start of the same server, at the same address.
func (k probeKey) sameServer(other probeKey) bool {
	return k.pod == other.pod && k.readySince.Equal(other.readySince) && k.host == other.host
}

// probeState is what is known of a database.
type probeState struct {
	// sequence tells a visit from the one before.
	sequence  int
	key       probeKey
	startedAt time.Time
	completed bool
	running   bool
	state     database.State
	err       error
	nextAt    time.Time
	// failures is how many visits in a row were not what they have to be.
	failures int
}

func newDatabaseProber(keeper *database.Reconciler, c clock.WithDelayedExecution, requeue func(types.NamespacedName)) *databaseProber {
	return &databaseProber{
		probeFunc: keeper.Reconcile, pingFunc: keeper.Ping, pingInterval: pingInterval, requeue: requeue, clock: c,
		slots: make(chan struct{}, maxConcurrentProbes), probes: map[types.NamespacedName]map[string]*probeState{},
	}
}

// start sets the context of all probes, before the first one.
func (p *databaseProber) start(ctx context.Context) { p.ctx = ctx }

// latestProbe returns the latest result and starts a probe if that is outdated. known is false if this server has
// not been probed.
func (p *databaseProber) latestProbe(id databaseID, key probeKey, db database.Database, now time.Time) (latest probeState, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.probes[id.app][id.component]
	if v == nil {
		v = &probeState{}
		if p.probes[id.app] == nil {
			p.probes[id.app] = map[string]*probeState{}
		}
		p.probes[id.app][id.component] = v
	}
	if !v.running && (!v.matches(key) || !now.Before(v.nextAt) || v.bindingLost(key, now)) {
		v.running, v.startedAt = true, now
		go p.runProbe(id, v, key, db)
	}
	latest = *v
	if v.running {
		latest.nextAt = time.Time{} // the probe requeues the application
	}
	return latest, v.completed && v.key.sameServer(key)
}

// matches says whether a question was answered. What the visit itself has written is no new one, once the cache shows it.
func (v *probeState) matches(key probeKey) bool {
	if key.bindingVersion != "" && key.bindingVersion == v.state.BindingVersion {
		v.key.bindingVersion = key.bindingVersion
	}
	return v.key == key
}

// bindingLost says whether a binding that the visit has written does not come: somebody has deleted it before the cache knew it.
func (v *probeState) bindingLost(key probeKey, now time.Time) bool {
	return cacheIsBehind(key.bindingVersion, v.state.BindingVersion) && !now.Before(v.startedAt.Add(bindingLostAfter))
}

// runProbe probes a database and stores the result.
func (p *databaseProber) runProbe(id databaseID, v *probeState, key probeKey, db database.Database) {
	var state database.State
	var err error
	p.withSlot(func(ctx context.Context) { state, err = p.probeFunc(ctx, db) })
	if p.ctx.Err() != nil {
		return // the operator is stopping
	}
	now := p.clock.Now()
	p.mu.Lock()
	v.sequence++
	if !v.key.sameServer(key) {
		v.failures = 0 // a server pays for its own failures only
	}
	v.key, v.completed, v.running, v.state, v.err = key, true, false, state, err
	if err != nil || state.ConnectionsExhausted {
		wait := min(initialProbeRetry<<min(v.failures, 8), maxProbeRetry)
		v.failures++
		v.nextAt = now.Add(wait + rand.N(wait/5))
	} else {
		v.failures = 0
		v.nextAt = now.Add(probeInterval + rand.N(probeInterval/5))
		if next := state.NextRotation; next.After(now) && next.Before(v.nextAt) {
			v.nextAt = next
		}
		p.schedulePing(id, v.sequence, db, state)
	}
	p.mu.Unlock()
	p.requeue(id.app)
}

// withSlot contacts a server when there is a free slot, and within the time of a probe.
func (p *databaseProber) withSlot(contact func(context.Context)) {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
		return
	}
	defer func() { <-p.slots }()
	ctx, cancel := context.WithTimeout(p.ctx, probeTimeout)
	defer cancel()
	contact(ctx)
}

func (p *databaseProber) schedulePing(id databaseID, sequence int, db database.Database, state database.State) {
	p.clock.AfterFunc(p.pingInterval+rand.N(p.pingInterval/5+1), func() { p.ping(id, sequence, db, state) })
}

// ping checks a database that the last probe found healthy. Only a failure requeues the application; a newer
// probe replaces the ping.
func (p *databaseProber) ping(id databaseID, sequence int, db database.Database, state database.State) {
	if p.currentProbe(id, sequence) == nil || p.ctx.Err() != nil {
		return
	}
	var err error
	p.withSlot(func(ctx context.Context) { err = p.pingFunc(ctx, db, state) })
	v := p.currentProbe(id, sequence)
	switch {
	case v == nil, p.ctx.Err() != nil:
	case err == nil:
		p.schedulePing(id, sequence, db, state)
	default:
		p.mu.Lock()
		v.nextAt = time.Time{}
		p.mu.Unlock()
		p.requeue(id.app)
	}
}

// currentProbe is what is known of a database, if that is still of a visit.
func (p *databaseProber) currentProbe(id databaseID, sequence int) *probeState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.probes[id.app][id.component]; v != nil && v.sequence == sequence && !v.running {
		return v
	}
	return nil
}

// cancelPings stops pinging a server whose pod is gone: another pod may have its address.
func (p *databaseProber) cancelPings(id databaseID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.probes[id.app][id.component]; v != nil {
		v.sequence++
	}
}

// isRotating reports whether the last probe found a rotation in progress.
func (p *databaseProber) isRotating(id databaseID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.probes[id.app][id.component]
	return v != nil && v.state.Rotating
}

// pruneComponents drops the results of databases that left the spec.
func (p *databaseProber) pruneComponents(app types.NamespacedName, components []desired.Component) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.probes[app], func(component string, _ *probeState) bool {
		return !slices.ContainsFunc(components, func(c desired.Component) bool { return c.Database != nil && c.Name == component })
	})
}

// forget drops the results of a deleted application.
func (p *databaseProber) forget(app types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.probes, app)
}
