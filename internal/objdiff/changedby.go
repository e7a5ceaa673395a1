package objdiff

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Manager is who wrote something, as the API server recorded it.
type Manager struct {
	Name        string     `json:"name"`
	Operation   string     `json:"operation"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
}

// ChangedBy is who made fields change, from what the API server notes about owners of
// fields before and after. A writer gets a new time and owns what it has set. Times count
// seconds only: who writes a field twice within one leaves no trace but that it owns the
// field. Deletions leave none at all.
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

// gainedFields says that an entry owns what it did not own. One that owns less has lost it to
// somebody else, and did nothing itself.
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
		return &fieldpath.Set{} // a later format: nobody can be named by it
	}
	return set
}

// ownershipDepth is how deep an entry owns any of the fields; 0 is not at all. Who owns but a map
// that a field is in may have made the map and nothing else. Items of lists have other names
// there than here, so that a field is looked for as deep as the first list.
func ownershipDepth(e *metav1.ManagedFieldsEntry, changes []FieldChange) int {
	set, deepest := ownedFields(e), 0
	for _, f := range changes {
		if f.Type != Removed {
			deepest = max(deepest, matchDepth(set, f.segments))
		}
	}
	return deepest
}

// matchDepth is how many steps of a path a set goes along with.
func matchDepth(set *fieldpath.Set, at []segment) int {
	for i, s := range at {
		if s.item {
			return i
		}
		name := fieldpath.PathElement{FieldName: &s.key}
		below := set.WithPrefix(name)
		if below.Empty() {
			if set.Members.Has(name) {
				return i + 1
			}
			return 0
		}
		set = below
	}
	return len(at)
}
