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

// takeOver makes fields of others ours in the books, without changing them, and returns
// the resourceVersion of the object afterwards.
func (a *Applier) takeOver(ctx context.Context, owner desired.Owner, id desired.ID, current client.Object, paths []fieldpath.Path) (string, error) {
	live, err := a.sameWithBooks(ctx, owner, id, current.GetUID(), current.GetResourceVersion())
	if err != nil {
		return "", err
	}
	books, changed, err := transfer(live.GetManagedFields(), id.Kind.GroupVersion().String(), paths)
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
		{"op": "replace", "path": "/metadata/managedFields", "value": books},
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

// transfer writes fields into our page of the books and out of everybody else's. It says
// whether that changed anything.
func transfer(books []metav1.ManagedFieldsEntry, apiVersion string, paths []fieldpath.Path) (out []metav1.ManagedFieldsEntry, changed bool, err error) {
	taken := fieldpath.NewSet(paths...)
	ours := metav1.ManagedFieldsEntry{Manager: appsapi.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: apiVersion, FieldsType: "FieldsV1"}
	held := fieldpath.NewSet()
	for _, page := range books {
		set := fieldpath.NewSet()
		if page.FieldsV1 != nil {
			if err := set.FromJSON(page.FieldsV1.GetRawReader()); err != nil {
				return nil, false, fmt.Errorf("read the fields of %s: %w", page.Manager, err)
			}
		}
		if page.Manager == ours.Manager && page.Operation == ours.Operation && page.Subresource == "" {
			ours, held = page, set
			continue
		}
		left := set.RecursiveDifference(taken)
		changed = changed || left.Size() < set.Size()
		if left.Empty() {
			continue
		}
		if err := write(&page, left); err != nil {
			return nil, false, err
		}
		out = append(out, page)
	}
	for _, path := range paths {
		changed = changed || held.RecursiveDifference(fieldpath.NewSet(path)).Size() == held.Size()
	}
	if err := write(&ours, held.Union(taken)); err != nil {
		return nil, false, err
	}
	return append(out, ours), changed, nil
}

func write(page *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	raw, err := fields.ToJSON()
	if err != nil {
		return fmt.Errorf("write the fields of %s: %w", page.Manager, err)
	}
	page.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return nil
}
