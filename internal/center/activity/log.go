// Package activity remembers what happened to applications lately: what was changed and by whom,
// which causes came and went, and how pods were when they ended.
//
// Safety rule: it is bounded, and says since when it reaches: that nothing is written about a time
// before is not to be read as that nothing happened. Values that may be secret are not in it.
package activity

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// What happened.
const (
	Created       = "Created"
	Changed       = "Changed"
	Deleted       = "Deleted"
	CauseOpened   = "CauseOpened"
	CauseClosed   = "CauseClosed"
	HealthChanged = "Health"
)

// Entry is something that happened.
type Entry struct {
	Time   time.Time   `json:"time"`
	Type   string      `json:"what"`
	Object wire.Object `json:"object"`
	// FieldManager is who did it, as far as the API server recorded it.
	FieldManager string                `json:"by,omitempty"`
	Fields       []objdiff.FieldChange `json:"fields,omitempty"`
	// Code and Sentence are those of a cause, or of what the health is now.
	Code     string `json:"code,omitempty"`
	Sentence string `json:"sentence,omitempty"`
	// PodState is how a pod was when it ended.
	PodState *PodState `json:"last,omitempty"`
}

// PodState is how a pod was when it was seen last.
type PodState struct {
	Phase      string           `json:"phase"`
	Reason     string           `json:"reason,omitempty"`
	Node       string           `json:"node,omitempty"`
	Containers []ContainerState `json:"containers,omitempty"`
}

// ContainerState is one of a pod that has ended.
type ContainerState struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty"`
	Restarts int32  `json:"restarts,omitempty"`
}

// Limits of a diary.
type Limits struct {
	// PerApplication is how many entries are kept about an application, and All about all of them.
	PerApplication, Total int
	// Fields is how many fields are kept of a change.
	Fields int
}

// DefaultLimits are about 30 MB at most.
var DefaultLimits = Limits{PerApplication: 200, Total: 50_000, Fields: 30}

// Log remembers.
type Log struct {
	clock   clock.PassiveClock
	limits  Limits
	started time.Time

	mu      sync.Mutex
	entries *list.List // of *note, in the order in which they were written
	byApp   map[string]*appLog
	// lastDropped is when something was last forgotten of an application of which nothing is left.
	lastDropped time.Time
}

// appLog are what is written about an application.
type appLog struct {
	elements []*list.Element
	// lastDropped is when something was last forgotten; zero if nothing was.
	lastDropped time.Time
}

type logEntry struct {
	app string
	Entry
}

// New begins a diary.
func New(c clock.PassiveClock, limits Limits) *Log {
	return &Log{clock: c, limits: limits, started: c.Now(), entries: list.New(), byApp: map[string]*appLog{}}
}

// Add notes what happened to an application, now unless it says when.
func (d *Log) Add(app string, e Entry) {
	if e.Time.IsZero() {
		e.Time = d.clock.Now()
	}
	e.Fields = slices.Clone(e.Fields[:min(len(e.Fields), d.limits.Fields)])
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.byApp[app]
	if p == nil {
		p = &appLog{lastDropped: d.lastDropped} // it may have been here before
		d.byApp[app] = p
	}
	p.elements = append(p.elements, d.entries.PushBack(&logEntry{app: app, Entry: e}))
	if len(p.elements) > d.limits.PerApplication {
		d.drop(p.elements[0])
	}
	if d.entries.Len() > d.limits.Total {
		d.drop(d.entries.Front())
	}
}

// drop forgets an entry, which is the oldest of its application.
func (d *Log) drop(e *list.Element) {
	n := d.entries.Remove(e).(*logEntry)
	p := d.byApp[n.app]
	p.elements = slices.Delete(p.elements, 0, 1)
	p.lastDropped = n.Time
	if len(p.elements) == 0 {
		d.lastDropped = n.Time
		delete(d.byApp, n.app)
	}
}

// List is what is written about an application, the newest first, and since when that is all.
func (d *Log) List(app string) (entries []Entry, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dropped := d.lastDropped
	if p := d.byApp[app]; p != nil {
		for _, e := range slices.Backward(p.elements) {
			entries = append(entries, e.Value.(*logEntry).Entry)
		}
		dropped = p.lastDropped
	}
	if dropped.After(d.started) {
		return entries, dropped
	}
	return entries, d.started
}

// Len is how much is written.
func (d *Log) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entries.Len()
}
