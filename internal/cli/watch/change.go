package watch

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
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
	Fields   []objdiff.FieldChange `json:"fields,omitempty"`
	Managers []objdiff.Manager     `json:"managers,omitempty"`
	// Gap is set for a change that nobody saw happen.
	Gap *Gap `json:"missed,omitempty"`
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

// Gap is a time of blindness.
type Gap struct {
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
	Gap        *Gap      `json:"missed,omitempty"`
	Counts     *Counts   `json:"counts,omitempty"`
}

func (w *watcher) newChange(changeType string, before, after *unstructured.Unstructured) Change {
	c := Change{Header: cli.NewHeader("Change"), Time: w.now().UTC(), Type: changeType, Object: Object{
		APIVersion: after.GetAPIVersion(), Kind: after.GetKind(), Namespace: after.GetNamespace(), Name: after.GetName(),
		UID: string(after.GetUID()), ResourceVersion: after.GetResourceVersion(),
	}}
	if changeType == typeDeleted {
		return c // of what is gone nothing changes, and who deletes is not recorded
	}
	var old unstructured.Unstructured
	if before != nil {
		old = *before
	}
	c.Fields = objdiff.Diff(after.GetKind(), old.Object, after.Object)
	c.Managers = objdiff.ChangedBy(old.GetManagedFields(), after.GetManagedFields(), c.Fields)
	return c
}

// countsFor are given where a watch ends.
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
