package fieldmanager

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TransferFields returns managedFields in which the conflicting fields belong only to our field
// manager, so that the next apply removes them. changed is false if they already do.
func TransferFields(manager string, managedFields []metav1.ManagedFieldsEntry, apiVersion string, conflicts []UnionConflict) (out []metav1.ManagedFieldsEntry, changed bool, err error) {
	transferred := fieldpath.NewSet()
	for _, c := range conflicts {
		transferred.Insert(c.Path)
	}
	ours := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: apiVersion, FieldsType: "FieldsV1"}
	ownedSet := fieldpath.NewSet()
	for _, entry := range managedFields {
		set, err := entryFields(entry)
		if err != nil {
			return nil, false, err
		}
		if isAppliedBy(manager, entry) {
			ours, ownedSet = entry, set
			continue
		}
		remaining := set.RecursiveDifference(transferred)
		changed = changed || remaining.Size() < set.Size()
		if remaining.Empty() {
			continue
		}
		if err := setFields(&entry, remaining); err != nil {
			return nil, false, err
		}
		out = append(out, entry)
	}
	for _, c := range conflicts {
		changed = changed || !hasBelow(ownedSet, c.Path)
	}
	if err := setFields(&ours, ownedSet.Union(transferred)); err != nil {
		return nil, false, err
	}
	return append(out, ours), changed, nil
}

// isAppliedBy reports whether an entry lists the fields that a manager applies.
func isAppliedBy(manager string, entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// entryFields parses the fields of an entry.
func entryFields(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return set, nil
	}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("read the fields of %s: %w", entry.Manager, err)
	}
	return set, nil
}

func setFields(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	raw, err := fields.ToJSON()
	if err != nil {
		return fmt.Errorf("write the fields of %s: %w", entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return nil
}
