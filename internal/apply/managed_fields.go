package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// transferOwnership makes fields of others ours in the books, without changing them, and returns
// the resourceVersion of the object afterwards.
func (a *Applier) transferOwnership(ctx context.Context, owner desired.Owner, id desired.ID, current client.Object, paths []fieldpath.Path) (string, error) {
	live, err := a.getUnchanged(ctx, owner, id, current.GetUID(), current.GetResourceVersion())
	if err != nil {
		return "", err
	}
	managedFields, changed, err := transferFields(live.GetManagedFields(), id.Kind.GroupVersion().String(), paths)
	if err != nil {
		return "", fmt.Errorf("take over fields of %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	if !changed {
		return current.GetResourceVersion(), nil // ours alone, from an earlier wish
	}
	patch, err := json.Marshal([]map[string]any{
		// Equal values change nothing; others are refused by the API server.
		{"op": "replace", "path": "/metadata/uid", "value": current.GetUID()},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": current.GetResourceVersion()},
		{"op": "replace", "path": "/metadata/managedFields", "value": managedFields},
	})
	if err != nil {
		return "", err
	}
	err = a.writer.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(appsapi.FieldManager))
	if err != nil {
		return "", fmt.Errorf("take over fields of %s %s/%s: %w", id.Kind.Kind, owner.Namespace, id.Name, err)
	}
	return live.GetResourceVersion(), nil
}

// transferFields writes fields into our page of the books and out of everybody else's. It says
// whether that changed anything.
func transferFields(managedFields []metav1.ManagedFieldsEntry, apiVersion string, paths []fieldpath.Path) (out []metav1.ManagedFieldsEntry, changed bool, err error) {
	transferred := fieldpath.NewSet(paths...)
	ours := metav1.ManagedFieldsEntry{Manager: appsapi.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: apiVersion, FieldsType: "FieldsV1"}
	ownedSet := fieldpath.NewSet()
	for _, entry := range managedFields {
		set := fieldpath.NewSet()
		if entry.FieldsV1 != nil {
			if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
				return nil, false, fmt.Errorf("read the fields of %s: %w", entry.Manager, err)
			}
		}
		if entry.Manager == ours.Manager && entry.Operation == ours.Operation && entry.Subresource == "" {
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
	for _, path := range paths {
		changed = changed || ownedSet.RecursiveDifference(fieldpath.NewSet(path)).Size() == ownedSet.Size()
	}
	if err := setFields(&ours, ownedSet.Union(transferred)); err != nil {
		return nil, false, err
	}
	return append(out, ours), changed, nil
}

func setFields(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	raw, err := fields.ToJSON()
	if err != nil {
		return fmt.Errorf("write the fields of %s: %w", entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return nil
}
