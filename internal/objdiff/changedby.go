package objdiff

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Manager is a field manager as recorded by the API server.
type Manager struct {
	Name        string     `json:"name"`
	Operation   string     `json:"operation"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
}

// ChangedBy returns the managers that changed fields, derived from managedFields before and after. A
// manager that writes gets a new time and owns the fields it sets. Times have a resolution of one second:
// a manager that writes a field twice within a second is only visible as its owner. Deletions leave no
// trace.
func ChangedBy(before, after []metav1.ManagedFieldsEntry, changes []FieldChange) []Manager {
	var wrote, owns, lost []Manager
	deepest := 1
	for i := range after {
		now := &after[i]
		old := findEntry(before, now)
		if old == nil || laterThan(now.Time, old.Time) || gainedFields(old, now) {
			wrote = append(wrote, managerOf(now))
			continue
		}
		deep := ownershipDepth(now, changes)
		if deep > deepest {
			owns, deepest = nil, deep
		}
		if deep == deepest {
			owns = append(owns, managerOf(now))
		}
		if !sameFields(old, now) {
			lost = append(lost, managerOf(now))
		}
	}
	for _, found := range [][]Manager{wrote, owns, lost} {
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func managerOf(e *metav1.ManagedFieldsEntry) Manager {
	m := Manager{Name: e.Manager, Operation: string(e.Operation), Subresource: e.Subresource}
	if e.Time != nil {
		m.Time = new(e.Time.UTC())
	}
	return m
}

func findEntry(entries []metav1.ManagedFieldsEntry, like *metav1.ManagedFieldsEntry) *metav1.ManagedFieldsEntry {
	for i := range entries {
		e := &entries[i]
		if e.Manager == like.Manager && e.Operation == like.Operation && e.Subresource == like.Subresource && e.APIVersion == like.APIVersion {
			return e
		}
	}
	return nil
}

func laterThan(now, old *metav1.Time) bool {
	return now != nil && (old == nil || now.After(old.Time))
}

// gainedFields reports whether an entry owns additional fields. An entry with fewer fields lost them to
// another manager.
func gainedFields(old, now *metav1.ManagedFieldsEntry) bool {
	return !sameFields(old, now) && !ownedFields(now).Difference(ownedFields(old)).Empty()
}

func sameFields(old, now *metav1.ManagedFieldsEntry) bool {
	return bytes.Equal(rawFields(old), rawFields(now))
}

func rawFields(e *metav1.ManagedFieldsEntry) []byte {
	if e.FieldsV1 == nil {
		return nil
	}
	return e.FieldsV1.GetRawBytes()
}

func ownedFields(e *metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(rawFields(e))); err != nil {
		return &fieldpath.Set{} // a newer format that cannot be parsed
	}
	return set
}

// OwnersOf returns the managers that own changed fields. For each field these are the managers that own it
// most specifically; a removed field has no owner.
func OwnersOf(entries []metav1.ManagedFieldsEntry, changes []FieldChange) []Manager {
	sets, owns := make([]*fieldpath.Set, len(entries)), make([]bool, len(entries))
	for i := range entries {
		sets[i] = ownedFields(&entries[i])
	}
	for _, f := range changes {
		depths, deepest := make([]int, len(sets)), 1
		for i, set := range sets {
			depths[i] = matchDepth(set, f.Path)
			deepest = max(deepest, depths[i])
		}
		for i, depth := range depths {
			owns[i] = owns[i] || depth == deepest
		}
	}
	var out []Manager
	for i := range entries {
		if owns[i] {
			out = append(out, managerOf(&entries[i]))
		}
	}
	return out
}

// ownershipDepth returns the depth of the deepest changed field that an entry owns; 0 if none. The owner
// of only a parent map may have created the map and nothing else.
func ownershipDepth(e *metav1.ManagedFieldsEntry, changes []FieldChange) int {
	set, deepest := ownedFields(e), 0
	for _, f := range changes {
		if f.Type != Removed {
			deepest = max(deepest, matchDepth(set, f.Path))
		}
	}
	return deepest
}

// matchDepth returns the number of steps of a path that a set contains; 0 if the set ends at another path.
func matchDepth(set *fieldpath.Set, at Path) int {
	for i, s := range at {
		element, ok := elementOf(set, s)
		if !ok {
			return i // items of a list that has no merge keys
		}
		below := set.WithPrefix(element)
		if below.Empty() {
			if set.Members.Has(element) {
				return i + 1
			}
			return 0
		}
		set = below
	}
	return len(at)
}

// elementOf returns the element of a set that a step of a path names. It is false for an item if no
// item of the set has merge keys.
func elementOf(set *fieldpath.Set, s Step) (found fieldpath.PathElement, ok bool) {
	found = fieldpath.PathElement{FieldName: &s.Name}
	if !s.Item {
		return found, true
	}
	visit := func(e fieldpath.PathElement) {
		if e.Key == nil {
			return
		}
		if ok = true; keyText(*e.Key) == s.Name {
			found = e
		}
	}
	// The iterators of the library panic if a loop ends early.
	set.Children.Iterate(visit)
	set.Members.Iterate(visit)
	return found, ok
}

// keyText returns merge keys as printed in paths, for example 80/TCP.
func keyText(keys value.FieldList) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprint(k.Value.Unstructured())
	}
	return strings.Join(parts, "/")
}
