package oracle

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// Counts maps objects to how often they were created and deleted. Pods and ReplicaSets are counted by their owner.
type Counts map[string][2]int

// CountEvents counts creations and deletions.
func CountEvents(events []watcher.Event) Counts {
	counts := Counts{}
	for i := range events {
		e := &events[i]
		if isGeneratedByKubernetes(e.Object) {
			continue
		}
		name := e.Object.GetKind() + "/" + e.Object.GetName()
		switch e.Object.GetKind() {
		case "Pod":
			name = "Pod of " + e.Object.GetLabels()["apps.holdfast.dev/workload"]
		case "ReplicaSet", "ControllerRevision":
			name = e.Object.GetKind() + " of " + controllerOf(e.Object).Name
		}
		c := counts[name]
		switch e.Type {
		case watch.Added:
			c[0]++
		case watch.Deleted:
			c[1]++
		default:
			continue
		}
		counts[name] = c
	}
	return counts
}

// Diff returns the differences to the counts of clean runs, which may differ among themselves.
func (c Counts) Diff(clean ...Counts) []string {
	var lines []string
	names := unionKeys(c, nil)
	for _, reference := range clean {
		for name := range reference {
			names[name] = true
		}
	}
	for name := range names {
		if !slices.ContainsFunc(clean, func(reference Counts) bool { return reference[name] == c[name] }) {
			lines = append(lines, fmt.Sprintf("%s: created %d and deleted %d times, want %d and %d",
				name, c[name][0], c[name][1], clean[0][name][0], clean[0][name][1]))
		}
	}
	slices.Sort(lines)
	return lines
}
