package database

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// A probe of an unresponsive server takes up to probeTimeout and does not delay other probes.
// Between probes there are pings, which cost one login and detect that all connections are used.
const (
	probeInterval       = 10 * time.Minute
	initialProbeRetry   = time.Second
	maxProbeRetry       = 40 * time.Second
	BindingLostAfter    = 5 * time.Second
	probeTimeout        = 30 * time.Second
	MaxConcurrentProbes = 64
	pingInterval        = time.Minute
	// certificateRetry is shorter than the time in which Kubernetes updates files of Secrets in pods.
	certificateRetry = 30 * time.Second
	// ProbeGracePeriod is how long a probe may take before the status mentions it. After a restart
	// the operator probes every database, which must not look like progress.
	ProbeGracePeriod = time.Second
)

// Prober probes database servers in the background. A reconcile uses the latest result and is requeued
// when there is a new one.
type Prober struct {
	probeFunc    func(context.Context, Database) (State, error)
	pingFunc     func(context.Context, Database, State) error
	pingInterval time.Duration
	requeue      func(context.Context, types.NamespacedName)
	clock        clock.WithDelayedExecution
	slots        chan struct{}
	// ctx ends with the manager.
	ctx context.Context

	mu     sync.Mutex
	probes map[types.NamespacedName]map[string]*Probe // by application and component
}

// ID identifies a database by application and component.
type ID struct {
	App       types.NamespacedName
	Component string
}

// ProbeKey is everything that the result of a probe depends on. A result with another key still
// counts if it is of the same server: a server does not stop accepting logins because a password
// is being rotated.
type ProbeKey struct {
	// Pod, ReadySince and Host identify a start of a server and its address.
	Pod        types.UID
	ReadySince time.Time
	Host       string
	// StatefulSetUID is the owner of the binding Secret.
	StatefulSetUID types.UID
	// SecretVersions are the resourceVersions of the Secrets that a probe reads, BindingVersion is
	// that of the binding Secret, which it writes.
	SecretVersions, BindingVersion string
	// Spec is the fingerprint of the declared database, RotationRequestedAt the last requested rotation.
	Spec, RotationRequestedAt string
	// ConsumersRolledOut is set once every client uses the binding of ConsumersBindingVersion.
	ConsumersRolledOut      bool
	ConsumersBindingVersion string
}

// sameServer reports whether both are about the same start of the same server at the same address.
func (k ProbeKey) sameServer(other ProbeKey) bool {
	return k.Pod == other.Pod && k.ReadySince.Equal(other.ReadySince) && k.Host == other.Host
}

// Probe is the latest result of probing a database.
type Probe struct {
	Key       ProbeKey
	StartedAt time.Time
	State     State
	Err       error
	// NextAt is when to probe again; zero while a probe is running.
	NextAt time.Time

	sequence           int // distinguishes this probe from the previous one
	completed, running bool
	failures           int // in a row
}

// NewProber returns a prober that calls requeue for every new result. Call Start before the first
// probe.
func NewProber(reconciler *Reconciler, c clock.WithDelayedExecution, requeue func(context.Context, types.NamespacedName)) *Prober {
	return &Prober{
		probeFunc: reconciler.Reconcile, pingFunc: reconciler.Ping, pingInterval: pingInterval, requeue: requeue, clock: c,
		slots: make(chan struct{}, MaxConcurrentProbes), probes: map[types.NamespacedName]map[string]*Probe{},
	}
}

// Start sets the context of all probes, before the first one.
func (p *Prober) Start(ctx context.Context) { p.ctx = ctx }

// Latest returns the latest result and starts a probe if that is outdated. known is false if this server has
// not been probed.
func (p *Prober) Latest(id ID, key ProbeKey, db Database, now time.Time) (latest Probe, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.probes[id.App][id.Component]
	if v == nil {
		v = &Probe{}
		if p.probes[id.App] == nil {
			p.probes[id.App] = map[string]*Probe{}
		}
		p.probes[id.App][id.Component] = v
	}
	if !v.running && (!v.matches(key) || !now.Before(v.NextAt) || v.bindingLost(key, now)) {
		v.running, v.StartedAt = true, now
		go p.runProbe(id, v, key, db)
	}
	latest = *v
	if v.running {
		latest.NextAt = time.Time{} // the probe requeues the application
	}
	return latest, v.completed && v.Key.sameServer(key)
}

// matches reports whether the result is for this key. The binding that the probe itself wrote does not make a new key.
func (v *Probe) matches(key ProbeKey) bool {
	if key.BindingVersion != "" && key.BindingVersion == v.State.BindingVersion {
		v.Key.BindingVersion = key.BindingVersion
	}
	return v.Key == key
}

// bindingLost reports whether the binding that the probe wrote never reached the cache, because it
// was deleted meanwhile.
func (v *Probe) bindingLost(key ProbeKey, now time.Time) bool {
	return CacheIsBehind(key.BindingVersion, v.State.BindingVersion) && !now.Before(v.StartedAt.Add(BindingLostAfter))
}

// runProbe probes a database and stores the result.
func (p *Prober) runProbe(id ID, v *Probe, key ProbeKey, db Database) {
	var state State
	var err error
	p.withSlot(func(ctx context.Context) { state, err = p.probeFunc(ctx, db) })
	if p.ctx.Err() != nil {
		return // the operator is stopping
	}
	now := p.clock.Now()
	p.mu.Lock()
	v.sequence++
	if !v.Key.sameServer(key) {
		v.failures = 0 // failures are counted per server
	}
	v.Key, v.completed, v.running, v.State, v.Err = key, true, false, state, err
	if err != nil || state.ConnectionsExhausted {
		wait := min(initialProbeRetry<<min(v.failures, 8), maxProbeRetry)
		v.failures++
		v.NextAt = now.Add(wait + rand.N(wait/5))
	} else {
		v.failures = 0
		v.NextAt = now.Add(probeInterval + rand.N(probeInterval/5))
		if next := state.NextRotation; next.After(now) && next.Before(v.NextAt) {
			v.NextAt = next
		}
		if state.CertificateOutdated {
			v.NextAt = now.Add(certificateRetry)
		}
		p.schedulePing(id, v.sequence, db, state)
	}
	p.mu.Unlock()
	p.requeue(p.ctx, id.App)
}

// withSlot contacts a server when a slot is free, within the timeout of a probe.
func (p *Prober) withSlot(contact func(context.Context)) {
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

func (p *Prober) schedulePing(id ID, sequence int, db Database, state State) {
	p.clock.AfterFunc(p.pingInterval+rand.N(p.pingInterval/5+1), func() { p.ping(id, sequence, db, state) })
}

// ping checks a database that the last probe found healthy. Only a failure requeues the application; a newer
// probe replaces the ping.
func (p *Prober) ping(id ID, sequence int, db Database, state State) {
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
		v.NextAt = time.Time{}
		p.mu.Unlock()
		p.requeue(p.ctx, id.App)
	}
}

// currentProbe returns the result of a database if it is still that of this probe.
func (p *Prober) currentProbe(id ID, sequence int) *Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.probes[id.App][id.Component]; v != nil && v.sequence == sequence && !v.running {
		return v
	}
	return nil
}

// CancelPings stops pinging a server whose pod is gone: another pod may have its address.
func (p *Prober) CancelPings(id ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.probes[id.App][id.Component]; v != nil {
		v.sequence++
	}
}

// IsRotating reports whether the last probe found a rotation in progress.
func (p *Prober) IsRotating(id ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.probes[id.App][id.Component]
	return v != nil && v.State.Rotating
}

// PruneComponents drops the results of databases that were removed from the spec.
func (p *Prober) PruneComponents(app types.NamespacedName, components []desired.Component) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.probes[app], func(component string, _ *Probe) bool {
		return !slices.ContainsFunc(components, func(c desired.Component) bool { return c.Database != nil && c.Name == component })
	})
}

// Forget drops the results of a deleted application.
func (p *Prober) Forget(app types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.probes, app)
}

// CacheIsBehind reports whether a cached resourceVersion is older than one that a probe wrote.
func CacheIsBehind(cached, probed string) bool {
	if probed == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(cached, probed)
	return err != nil || c < 0
}
