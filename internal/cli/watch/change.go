package watch

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/fields"
)

// What became of an object.
const (
	typeExists   = "EXISTS" // before anything was watched
	typeAdded    = "ADDED"
	typeModified = "MODIFIED"
	typeDeleted  = "DELETED"
)

// Change is what became of one object.
type Change struct {
	cli.Header `json:",inline"`
	// Time is when it was seen.
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Object Object    `json:"object"`
	// Fields are all of them for an object that is new.
	Fields   []fields.Field   `json:"fields,omitempty"`
	Managers []fields.Manager `json:"managers,omitempty"`
	// Missed is set for a change that nobody saw happen.
	Missed *Missed `json:"missed,omitempty"`
}

// Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	// ResourceVersion is empty where it is not known: of a deletion that nobody saw.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Missed is a time of blindness.
type Missed struct {
	// Since is when something was heard last.
	Since time.Time `json:"since"`
	// After and Until are the resourceVersions between which nothing is known.
	After string `json:"after"`
	Until string `json:"until"`
}

// The types of notices.
const (
	NoticeStarted      = "Started"
	NoticeDisconnected = "Disconnected"
	NoticeConnected    = "Connected"
	NoticeRelisted     = "Relisted"
	NoticeEnded        = "Ended"
)

// Notice is about the watch itself.
type Notice struct {
	cli.Header `json:",inline"`
	Time       time.Time `json:"time"`
	Type       string    `json:"type"`
	Message    string    `json:"message"`
	Error      string    `json:"error,omitempty"`
	Missed     *Missed   `json:"missed,omitempty"`
	Counts     *Counts   `json:"counts,omitempty"`
}

func (w *watcher) changeOf(kind string, before, after *unstructured.Unstructured) Change {
	c := Change{Header: cli.NewHeader("Change"), Time: w.now().UTC(), Type: kind, Object: Object{
		APIVersion: after.GetAPIVersion(), Kind: after.GetKind(), Namespace: after.GetNamespace(), Name: after.GetName(),
		UID: string(after.GetUID()), ResourceVersion: after.GetResourceVersion(),
	}}
	if kind == typeDeleted {
		return c // of what is gone nothing changes, and who deletes is not recorded
	}
	var old unstructured.Unstructured
	if before != nil {
		old = *before
	}
	c.Fields = fields.Between(after.GetKind(), old.Object, after.Object)
	c.Managers = fields.Managers(old.GetManagedFields(), after.GetManagedFields(), c.Fields)
	return c
}

// countsAt are given where a watch ends.
func (w *watcher) countsAt(kind string) *Counts {
	if kind != NoticeEnded {
		return nil
	}
	return &w.counts
}

func sortedKeys(held map[key]*unstructured.Unstructured) []key {
	var all []key
	for k := range held {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return all
}
