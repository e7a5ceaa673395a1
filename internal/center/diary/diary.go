// Package diary remembers what happened to applications lately: what was changed and by whom,
// which causes came and went, and how pods were when they ended.
//
// Safety rule: it is bounded, and says since when it reaches: that nothing is written about a time
// before is not to be read as that nothing happened. Values that may be secret are not in it.
package diary

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/fields"
)

// What happened.
const (
	Created     = "Created"
	Changed     = "Changed"
	Deleted     = "Deleted"
	CauseOpened = "CauseOpened"
	CauseClosed = "CauseClosed"
	Health      = "Health"
)

// Entry is something that happened.
type Entry struct {
	Time   time.Time     `json:"time"`
	What   string        `json:"what"`
	Object answer.Object `json:"object"`
	// By is who did it, as far as the API server recorded it.
	By     string         `json:"by,omitempty"`
	Fields []fields.Field `json:"fields,omitempty"`
	// Code and Sentence are those of a cause, or of what the health is now.
	Code     string `json:"code,omitempty"`
	Sentence string `json:"sentence,omitempty"`
	// Last is how a pod was when it ended.
	Last *LastState `json:"last,omitempty"`
}

// LastState is how a pod was when it was seen last.
type LastState struct {
	Phase      string      `json:"phase"`
	Reason     string      `json:"reason,omitempty"`
	Node       string      `json:"node,omitempty"`
	Containers []Container `json:"containers,omitempty"`
}

// Container is one of a pod that has ended.
type Container struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	ExitCode *int32 `json:"exitCode,omitempty"`
	Restarts int32  `json:"restarts,omitempty"`
}

// Limits of a diary.
type Limits struct {
	// Each is how many entries are kept about an application, and All about all of them.
	Each, All int
	// Fields is how many fields are kept of a change.
	Fields int
}

// DefaultLimits are about 30 MB at most.
var DefaultLimits = Limits{Each: 200, All: 50_000, Fields: 30}

// Diary remembers.
type Diary struct {
	clock  clock.PassiveClock
	limits Limits
	begun  time.Time

	mu   sync.Mutex
	all  *list.List // of *note, in the order in which they were written
	apps map[string]*pages
	// lost is when something was last forgotten of an application of which nothing is left.
	lost time.Time
}

// pages are what is written about an application.
type pages struct {
	notes []*list.Element
	// since is when something was last forgotten; zero if nothing was.
	since time.Time
}

type note struct {
	app string
	Entry
}

// New begins a diary.
func New(c clock.PassiveClock, limits Limits) *Diary {
	return &Diary{clock: c, limits: limits, begun: c.Now(), all: list.New(), apps: map[string]*pages{}}
}

// Write notes what happened to an application, now unless it says when.
func (d *Diary) Write(app string, e Entry) {
	if e.Time.IsZero() {
		e.Time = d.clock.Now()
	}
	e.Fields = slices.Clone(e.Fields[:min(len(e.Fields), d.limits.Fields)])
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.apps[app]
	if p == nil {
		p = &pages{since: d.lost} // it may have been here before
		d.apps[app] = p
	}
	p.notes = append(p.notes, d.all.PushBack(&note{app: app, Entry: e}))
	if len(p.notes) > d.limits.Each {
		d.drop(p.notes[0])
	}
	if d.all.Len() > d.limits.All {
		d.drop(d.all.Front())
	}
}

// drop forgets an entry, which is the oldest of its application.
func (d *Diary) drop(e *list.Element) {
	n := d.all.Remove(e).(*note)
	p := d.apps[n.app]
	p.notes = slices.Delete(p.notes, 0, 1)
	p.since = n.Time
	if len(p.notes) == 0 {
		d.lost = n.Time
		delete(d.apps, n.app)
	}
}

// Read is what is written about an application, the newest first, and since when that is all.
func (d *Diary) Read(app string) (entries []Entry, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := d.lost
	if p := d.apps[app]; p != nil {
		for _, e := range slices.Backward(p.notes) {
			entries = append(entries, e.Value.(*note).Entry)
		}
		lost = p.since
	}
	if lost.After(d.begun) {
		return entries, lost
	}
	return entries, d.begun
}

// Len is how much is written.
func (d *Diary) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all.Len()
}
