// Package model keeps, for every application of the cluster, the view of it as it is now: those of
// our kinds, Helm releases, and groups of objects that say that they are part of the same.
//
// Safety rule: it reads nothing itself; what it shows is what the store has. An object of which
// not everything is heard is judged with what is known, and said to be stale.
package model

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Ref names an application.
type Ref struct{ Kind, Namespace, Name string }

func (r Ref) String() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// ParseRef reads what String wrote.
func ParseRef(text string) (Ref, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Ref{}, false
	}
	return Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, true
}

// Compare puts applications in the order of namespaces, names and kinds.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name), cmp.Compare(r.Kind, other.Kind))
}

// IsManaged says whether the operator runs it.
func (r Ref) IsManaged() bool {
	return r.Kind != inspect.KindHelmRelease && r.Kind != inspect.KindGroup
}

// Record is an application as it is now. It is never changed, only replaced.
type Record struct {
	Ref Ref
	inspect.View
	// Created is when it came, or the oldest of its objects.
	Created time.Time
	// Kinds are those that its objects are of.
	Kinds []schema.GroupKind
}

// Options of a model.
type Options struct {
	Store *store.Store
	// InformerState is how the informer for a kind is.
	InformerState func(kind schema.GroupKind, namespace string) informers.State
	// OnChange is told of every application that is another one than before; nil before it was
	// there, and after it is gone. It is told one after the other.
	OnChange func(before, after *Record)
	// OnNamespaceInUse is told when the first application comes to a namespace, and when the last goes.
	OnNamespaceInUse func(namespace string, inhabited bool)
	Activity         *activity.Log
	Clock            clock.Clock
}

// batchDelay is how long changes are collected before they are looked at: a rollout changes many
// objects of an application at once.
const batchDelay = 5 * time.Millisecond

// Model keeps views.
type Model struct {
	Options
	wake    chan struct{}
	started time.Time

	mu               sync.RWMutex
	records          map[Ref]*Record
	dirty            map[Ref]bool
	due              map[Ref]time.Time // when to look again although nothing happens
	countByNamespace map[string]int    // how many there are in a namespace
	// sorted are all of them in their order; nil when it has to be made anew. Readers may keep
	// it: one that was lent is copied before it is changed, and no other.
	sorted       []*Record
	sortedShared atomic.Bool
	// oldestQueued is since when the oldest of dirty waits, taken since when that of those waited of
	// which left are still to be looked at; the rest is of the looks that were taken.
	oldestQueued, batchQueuedSince time.Time
	batchRemaining                 int
	builds                         uint64
	buildTime, longestBuild        time.Duration
}

// New makes a model of nothing.
func New(o Options) *Model {
	return &Model{Options: o, wake: make(chan struct{}, 1), started: o.Clock.Now(), records: map[Ref]*Record{}, dirty: map[Ref]bool{}, due: map[Ref]time.Time{}, countByNamespace: map[string]int{}}
}

// Run keeps the views up to date until the context ends.
func (m *Model) Run(ctx context.Context) {
	for {
		var dueC <-chan time.Time
		var timer clock.Timer
		if next, ok := m.nextDue(); ok {
			timer = m.Clock.NewTimer(max(next.Sub(m.Clock.Now()), batchDelay))
			dueC = timer.C()
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
			m.waitBatchDelay(ctx)
		case <-dueC:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
		m.Refresh()
	}
}

func (m *Model) waitBatchDelay(ctx context.Context) {
	t := m.Clock.NewTimer(batchDelay)
	defer t.Stop()
	select {
	case <-t.C():
	case <-ctx.Done():
	}
}

// nextDue is when something is due.
func (m *Model) nextDue() (at time.Time, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, t := range m.due {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// Refresh looks at everything that may be another one than before.
func (m *Model) Refresh() {
	now := m.Clock.Now()
	m.mu.Lock()
	refs := make([]Ref, 0, len(m.dirty))
	for ref := range m.dirty {
		refs = append(refs, ref)
	}
	clear(m.dirty)
	m.batchQueuedSince = m.oldestQueued
	for ref, at := range m.due {
		if !at.After(now) {
			delete(m.due, ref)
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, Ref.Compare)
	refs = slices.Compact(refs)
	m.batchRemaining = len(refs)
	m.mu.Unlock()
	for _, ref := range refs {
		m.refresh(ref, now)
	}
}

func (m *Model) refresh(ref Ref, now time.Time) {
	start := m.Clock.Now()
	after := m.buildRecord(ref, now)
	m.mu.Lock()
	m.recordBuild(m.Clock.Since(start))
	before := m.records[ref]
	if after == nil {
		delete(m.records, ref)
		delete(m.due, ref)
	} else {
		m.records[ref] = after
		delete(m.due, ref)
		if !after.RecheckAt.IsZero() {
			m.due[ref] = after.RecheckAt
		}
	}
	m.updateSorted(before, after)
	count := m.countByNamespace[ref.Namespace]
	switch {
	case before == nil && after != nil:
		m.countByNamespace[ref.Namespace]++
	case before != nil && after == nil:
		m.countByNamespace[ref.Namespace]--
	}
	inUse := m.countByNamespace[ref.Namespace] > 0
	if !inUse {
		delete(m.countByNamespace, ref.Namespace)
	}
	m.mu.Unlock()
	if m.OnNamespaceInUse != nil && inUse != (count > 0) {
		m.OnNamespaceInUse(ref.Namespace, inUse)
	}
	if before == nil && after == nil || before != nil && after != nil && equalRecords(before, after) {
		return
	}
	m.recordTransition(before, after)
	if m.OnChange != nil {
		m.OnChange(before, after)
	}
}

// updateSorted keeps the order up to date: most changes only put one record in the place of another.
func (m *Model) updateSorted(before, after *Record) {
	if m.sorted == nil || before == nil && after == nil {
		return
	}
	if before == nil || after == nil {
		m.sorted = nil
		return
	}
	i, ok := slices.BinarySearchFunc(m.sorted, after.Ref, func(r *Record, ref Ref) int { return r.Ref.Compare(ref) })
	if !ok {
		m.sorted = nil
		return
	}
	if m.sortedShared.Swap(false) {
		m.sorted = slices.Clone(m.sorted)
	}
	m.sorted[i] = after
}

// MarkDirty looks at applications again.
func (m *Model) MarkDirty(refs ...Ref) {
	if len(refs) == 0 {
		return
	}
	m.mu.Lock()
	if len(m.dirty) == 0 {
		m.oldestQueued = m.Clock.Now()
	}
	for _, r := range refs {
		m.dirty[r] = true
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// MarkNamespaceDirty looks at those in a namespace again, or at all if it is empty: how well something is heard
// there has changed.
func (m *Model) MarkNamespaceDirty(namespace string) {
	m.MarkDirty(m.refsWhere(func(r *Record) bool { return namespace == "" || r.Ref.Namespace == namespace })...)
}

func (m *Model) refsWhere(match func(*Record) bool) []Ref {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Ref
	for ref, r := range m.records {
		if match(r) {
			out = append(out, ref)
		}
	}
	return out
}

// Get is an application, or nil.
func (m *Model) Get(ref Ref) *Record {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.records[ref]
}

// All are all applications, by namespace and name. Nobody changes the list.
func (m *Model) All() []*Record {
	m.mu.RLock()
	out := m.sorted
	m.sortedShared.Store(true)
	m.mu.RUnlock()
	if out != nil {
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out = make([]*Record, 0, len(m.records))
	for _, r := range m.records {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Record) int { return a.Ref.Compare(b.Ref) })
	m.sorted = out
	m.sortedShared.Store(true)
	return out
}
