// Package model maintains the current view of every application of the cluster: application kinds, Helm
// releases, and groups of objects with the same part-of label.
//
// Safety rule: the model sends no requests; all its data comes from the store. A view whose informers are
// not live is built from the known objects and reported as stale.
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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Ref identifies an application. Kind includes the API group for kinds of other operators, as in
// Guestbook.example.com.
type Ref struct{ Kind, Namespace, Name string }

func (r Ref) String() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// ParseRef parses the result of String.
func ParseRef(text string) (Ref, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Ref{}, false
	}
	return Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, true
}

// Compare orders applications by namespace, name and kind.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name), cmp.Compare(r.Kind, other.Kind))
}

// IsManaged reports whether an operator manages the application.
func (r Ref) IsManaged() bool {
	return r.Kind != inspect.KindHelmRelease && r.Kind != inspect.KindGroup
}

// object returns the reference to the application object. References omit the group of Holdfast's own kinds.
func (r Ref) object() explain.ObjectRef {
	gk := appkind.ParseName(r.Kind)
	if gk.Group == appsapi.GroupName {
		gk.Group = ""
	}
	return explain.ObjectRef{Group: gk.Group, Kind: gk.Kind, Namespace: r.Namespace, Name: r.Name}
}

// Record is the current state of an application. It is immutable; changes replace it.
type Record struct {
	Ref Ref
	inspect.View
	// Created is the creation time of the application or of its oldest object.
	Created time.Time
	// Kinds are the kinds of its objects.
	Kinds []schema.GroupKind
}

// Options configures a model.
type Options struct {
	Store *store.Store
	// InformerState returns the state of the informer for a kind.
	InformerState func(kind schema.GroupKind, namespace string) informers.State
	// OnChange is called for every changed application, sequentially. before is nil for a new application,
	// after is nil for a deleted one.
	OnChange func(before, after *Record)
	// OnNamespaceInUse is called when a namespace gets its first application and when it loses its last.
	OnNamespaceInUse func(namespace string, inhabited bool)
	Activity         *activity.Log
	Clock            clock.Clock
}

// batchDelay is the time for which changes are collected before views are rebuilt, because a rollout changes
// many objects of an application at once.
const batchDelay = 5 * time.Millisecond

// Model maintains the views of all applications.
type Model struct {
	Options
	wake    chan struct{}
	started time.Time

	mu               sync.RWMutex
	records          map[Ref]*Record
	dirty            map[Ref]bool
	due              map[Ref]time.Time // when to rebuild a view without a change
	countByNamespace map[string]int    // number of applications
	// sorted contains all records in order; nil if it must be rebuilt. Readers can keep it: if sortedShared
	// is set, it is copied before it is modified.
	sorted       []*Record
	sortedShared atomic.Bool
	// oldestQueued is the time of the oldest entry of dirty. batchQueuedSince is that time for the batch in
	// progress, of which batchRemaining applications are left. The other fields are build statistics.
	oldestQueued, batchQueuedSince time.Time
	batchRemaining                 int
	builds                         uint64
	buildTime, longestBuild        time.Duration
}

// New returns an empty model.
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

// nextDue returns the time of the next rebuild without a change.
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

// Refresh rebuilds all dirty and due views.
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

// updateSorted updates the sorted records. Most changes only replace one record.
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

// MarkDirty queues applications for a rebuild of their views.
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

// MarkNamespaceDirty queues all applications in a namespace, or all applications if it is empty. Call it when
// the state of an informer has changed.
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

// Get returns the record of an application, or nil.
func (m *Model) Get(ref Ref) *Record {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.records[ref]
}

// All returns all applications, sorted by namespace and name. Callers must not modify the list.
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
