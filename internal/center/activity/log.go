// Package activity records the recent activity of applications: changes and their field managers, opened
// and closed causes, and the last state of deleted pods.
//
// Safety rule: the log is limited in size and reports the time from which it is complete, so that missing
// older entries are not mistaken for no activity. It contains no values that may be secret.
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

// Types of entries.
const (
	Created       = "Created"
	Changed       = "Changed"
	Deleted       = "Deleted"
	CauseOpened   = "CauseOpened"
	CauseClosed   = "CauseClosed"
	HealthChanged = "Health"
)

// Entry is one activity of an application.
type Entry struct {
	Time   time.Time   `json:"time"`
	Type   string      `json:"type"`
	Object wire.Object `json:"object"`
	// FieldManager is the field manager of the change, if the API server recorded one.
	FieldManager string                `json:"manager,omitempty"`
	Fields       []objdiff.FieldChange `json:"fields,omitempty"`
	// Code and Message are the code and message of a cause, or the new health and its message.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// PodState is the last observed state of a deleted pod.
	PodState *PodState `json:"podState,omitempty"`
}

// PodState is the last observed state of a pod.
type PodState struct {
	Phase      string           `json:"phase"`
	Reason     string           `json:"reason,omitempty"`
	Node       string           `json:"node,omitempty"`
	Containers []ContainerState `json:"containers,omitempty"`
}

// ContainerState is the last observed state of a container.
type ContainerState struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty"`
	Restarts int32  `json:"restarts,omitempty"`
}

// Limits limits the size of a log.
type Limits struct {
	// PerApplication and Total are the maximum numbers of entries per application and in total.
	PerApplication, Total int
	// Fields is the maximum number of changed fields per entry.
	Fields int
}

// DefaultLimits limits the memory of a log to about 30 MB.
var DefaultLimits = Limits{PerApplication: 200, Total: 50_000, Fields: 30}

// Log stores recent entries in memory.
type Log struct {
	clock   clock.PassiveClock
	limits  Limits
	started time.Time

	mu      sync.Mutex
	entries *list.List // of *logEntry, oldest first
	byApp   map[string]*appLog
	// lastDropped is the time of the last dropped entry of applications without remaining entries.
	lastDropped time.Time
}

// appLog contains the entries of an application.
type appLog struct {
	elements []*list.Element
	// lastDropped is the time of the last dropped entry; zero if no entry was dropped.
	lastDropped time.Time
}

type logEntry struct {
	app string
	Entry
}

// New returns an empty log.
func New(c clock.PassiveClock, limits Limits) *Log {
	return &Log{clock: c, limits: limits, started: c.Now(), entries: list.New(), byApp: map[string]*appLog{}}
}

// Add adds an entry. If its time is zero, Add sets the current time.
func (d *Log) Add(app string, e Entry) {
	if e.Time.IsZero() {
		e.Time = d.clock.Now()
	}
	e.Fields = slices.Clone(e.Fields[:min(len(e.Fields), d.limits.Fields)])
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.byApp[app]
	if p == nil {
		p = &appLog{lastDropped: d.lastDropped} // its earlier entries may have been dropped
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

// drop removes an entry, which must be the oldest of its application.
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

// List returns the entries of an application, newest first, and the time from which they are complete.
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

// Len returns the number of entries.
func (d *Log) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entries.Len()
}
