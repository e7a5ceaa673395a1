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

	"github.com/holdfast-dev/holdfast/internal/center/diary"
	"github.com/holdfast-dev/holdfast/internal/center/registry"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/view"
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

// IsOurs says whether the operator runs it.
func (r Ref) IsOurs() bool { return r.Kind != view.KindHelmRelease && r.Kind != view.KindGroup }

// Record is an application as it is now. It is never changed, only replaced.
type Record struct {
	Ref Ref
	view.View
	// Created is when it came, or the oldest of its objects.
	Created time.Time
	// Kinds are those that its objects are of.
	Kinds []schema.GroupKind
}

// Options of a model.
type Options struct {
	Store *store.Store
	// State is how the informer for a kind is.
	State func(kind schema.GroupKind, namespace string) registry.State
	// Published is told of every application that is another one than before; nil before it was
	// there, and after it is gone. It is told one after the other.
	Published func(before, after *Record)
	// Inhabited is told when the first application comes to a namespace, and when the last goes.
	Inhabited func(namespace string, inhabited bool)
	Diary     *diary.Diary
	Clock     clock.Clock
}

// settle is how long changes are collected before they are looked at: a rollout changes many
// objects of an application at once.
const settle = 5 * time.Millisecond

// Model keeps views.
type Model struct {
	Options
	wake  chan struct{}
	begun time.Time

	mu    sync.RWMutex
	apps  map[Ref]*Record
	dirty map[Ref]bool
	due   map[Ref]time.Time // when to look again although nothing happens
	in    map[string]int    // how many there are in a namespace
	// sorted are all of them in their order; nil when it has to be made anew. Readers may keep
	// it: one that was lent is copied before it is changed, and no other.
	sorted []*Record
	lent   atomic.Bool
	// waiting is since when the oldest of dirty waits, taken since when that of those waited of
	// which left are still to be looked at; the rest is of the looks that were taken.
	waiting, taken time.Time
	left           int
	looks          uint64
	spent, longest time.Duration
}

// New makes a model of nothing.
func New(o Options) *Model {
	return &Model{Options: o, wake: make(chan struct{}, 1), begun: o.Clock.Now(), apps: map[Ref]*Record{}, dirty: map[Ref]bool{}, due: map[Ref]time.Time{}, in: map[string]int{}}
}

// Run keeps the views up to date until the context ends.
func (m *Model) Run(ctx context.Context) {
	for {
		var later <-chan time.Time
		var timer clock.Timer
		if next, ok := m.next(); ok {
			timer = m.Clock.NewTimer(max(next.Sub(m.Clock.Now()), settle))
			later = timer.C()
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
			m.pause(ctx)
		case <-later:
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

func (m *Model) pause(ctx context.Context) {
	t := m.Clock.NewTimer(settle)
	defer t.Stop()
	select {
	case <-t.C():
	case <-ctx.Done():
	}
}

// next is when something is due.
func (m *Model) next() (at time.Time, ok bool) {
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
	m.taken = m.waiting
	for ref, at := range m.due {
		if !at.After(now) {
			delete(m.due, ref)
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, Ref.Compare)
	refs = slices.Compact(refs)
	m.left = len(refs)
	m.mu.Unlock()
	for _, ref := range refs {
		m.refresh(ref, now)
	}
}

func (m *Model) refresh(ref Ref, now time.Time) {
	begin := m.Clock.Now()
	after := m.look(ref, now)
	m.mu.Lock()
	m.looked(m.Clock.Since(begin))
	before := m.apps[ref]
	if after == nil {
		delete(m.apps, ref)
		delete(m.due, ref)
	} else {
		m.apps[ref] = after
		delete(m.due, ref)
		if !after.Again.IsZero() {
			m.due[ref] = after.Again
		}
	}
	m.resort(before, after)
	count := m.in[ref.Namespace]
	switch {
	case before == nil && after != nil:
		m.in[ref.Namespace]++
	case before != nil && after == nil:
		m.in[ref.Namespace]--
	}
	inhabited := m.in[ref.Namespace] > 0
	if !inhabited {
		delete(m.in, ref.Namespace)
	}
	m.mu.Unlock()
	if m.Inhabited != nil && inhabited != (count > 0) {
		m.Inhabited(ref.Namespace, inhabited)
	}
	if before == nil && after == nil || before != nil && after != nil && same(before, after) {
		return
	}
	m.note(before, after)
	if m.Published != nil {
		m.Published(before, after)
	}
}

// resort keeps the order up to date: most changes only put one record in the place of another.
func (m *Model) resort(before, after *Record) {
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
	if m.lent.Swap(false) {
		m.sorted = slices.Clone(m.sorted)
	}
	m.sorted[i] = after
}

// Touch looks at applications again.
func (m *Model) Touch(refs ...Ref) {
	if len(refs) == 0 {
		return
	}
	m.mu.Lock()
	if len(m.dirty) == 0 {
		m.waiting = m.Clock.Now()
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

// TouchIn looks at those in a namespace again, or at all if it is empty: how well something is heard
// there has changed.
func (m *Model) TouchIn(namespace string) {
	m.Touch(m.refs(func(r *Record) bool { return namespace == "" || r.Ref.Namespace == namespace })...)
}

func (m *Model) refs(those func(*Record) bool) []Ref {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Ref
	for ref, r := range m.apps {
		if those(r) {
			out = append(out, ref)
		}
	}
	return out
}

// Get is an application, or nil.
func (m *Model) Get(ref Ref) *Record {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.apps[ref]
}

// All are all applications, by namespace and name. Nobody changes the list.
func (m *Model) All() []*Record {
	m.mu.RLock()
	out := m.sorted
	m.lent.Store(true)
	m.mu.RUnlock()
	if out != nil {
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out = make([]*Record, 0, len(m.apps))
	for _, r := range m.apps {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Record) int { return a.Ref.Compare(b.Ref) })
	m.sorted = out
	m.lent.Store(true)
	return out
}
