package watch

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// Types of changes.
const (
	typeExists   = "EXISTS" // before the watch started
	typeAdded    = "ADDED"
	typeModified = "MODIFIED"
	typeDeleted  = "DELETED"
)

// Change is a change of one object.
type Change struct {
	cli.Header `json:",inline"`
	// Time is the time at which the change was observed.
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Object Object    `json:"object"`
	// Fields are the changed fields. For a new object these are all fields.
	Fields   []objdiff.FieldChange `json:"fields,omitempty"`
	Managers []objdiff.Manager     `json:"managers,omitempty"`
	// Gap is set if the event was lost and the change was found by a re-list.
	Gap *Gap `json:"gap,omitempty"`
}

// Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	// ResourceVersion is empty if it is unknown: for a deletion that was found by a re-list.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Gap is a time range in which events were lost.
type Gap struct {
	// Since is the time of the last event.
	Since time.Time `json:"since"`
	// After and Until are the resourceVersions between which events were lost.
	After string `json:"after"`
	Until string `json:"until"`
}

// Types of notices.
const (
	NoticeStarted      = "Started"
	NoticeDisconnected = "Disconnected"
	NoticeConnected    = "Connected"
	NoticeRelisted     = "Relisted"
	NoticeEnded        = "Ended"
)

// Notice reports the state of the watch.
type Notice struct {
	cli.Header `json:",inline"`
	Time       time.Time `json:"time"`
	Type       string    `json:"type"`
	Message    string    `json:"message"`
	Error      string    `json:"error,omitempty"`
	Gap        *Gap      `json:"gap,omitempty"`
	Counts     *Counts   `json:"counts,omitempty"`
}

func (w *watcher) newChange(changeType string, before, after *unstructured.Unstructured) Change {
	c := Change{Header: cli.NewHeader("Change"), Time: w.now().UTC(), Type: changeType, Object: Object{
		APIVersion: after.GetAPIVersion(), Kind: after.GetKind(), Namespace: after.GetNamespace(), Name: after.GetName(),
		UID: string(after.GetUID()), ResourceVersion: after.GetResourceVersion(),
	}}
	if changeType == typeDeleted {
		return c // a deletion changes no fields and has no field manager
	}
	var old unstructured.Unstructured
	if before != nil {
		old = *before
	}
	c.Fields = objdiff.DiffObjects(after.GetKind(), old.Object, after.Object)
	c.Managers = objdiff.ChangedBy(old.GetManagedFields(), after.GetManagedFields(), c.Fields)
	return c
}

// countsFor returns the counts for the final notice.
func (w *watcher) countsFor(noticeType string) *Counts {
	if noticeType != NoticeEnded {
		return nil
	}
	return &w.counts
}

func sortedKeys(objects map[key]*unstructured.Unstructured) []key {
	var all []key
	for k := range objects {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return all
}
