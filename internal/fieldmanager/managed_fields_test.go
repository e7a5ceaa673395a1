package fieldmanager

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func managedFieldsEntry(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
}

// TestTransferFields checks that a field is moved from the entries of other managers to ours, once.
func TestTransferFields(t *testing.T) {
	conflict := UnionConflict{Path: fieldpath.MakePathOrDie("spec", "probe", "httpGet")}
	cases := map[string]struct {
		before, want []metav1.ManagedFieldsEntry
		changed      bool
	}{
		"theirs": {
			before: []metav1.ManagedFieldsEntry{
				managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:replicas":{}}}`),
				managedFieldsEntry("kubectl-edit", "Update", "", `{"f:spec":{"f:paused":{},"f:probe":{"f:httpGet":{".":{},"f:port":{}}}}}`),
				managedFieldsEntry("holdfast", "Apply", "status", `{"f:status":{}}`),
			},
			want: []metav1.ManagedFieldsEntry{
				managedFieldsEntry("kubectl-edit", "Update", "", `{"f:spec":{"f:paused":{}}}`),
				managedFieldsEntry("holdfast", "Apply", "status", `{"f:status":{}}`),
				managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{}},"f:replicas":{}}}`),
			},
			changed: true,
		},
		"only field of the other manager": {
			before:  []metav1.ManagedFieldsEntry{managedFieldsEntry("kubectl-edit", "Update", "", `{"f:spec":{"f:probe":{"f:httpGet":{"f:port":{}}}}}`)},
			want:    []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{}}}}`)},
			changed: true,
		},
		"nobody's": {
			before:  []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:replicas":{}}}`)},
			want:    []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{}},"f:replicas":{}}}`)},
			changed: true,
		},
		"ours": {
			before: []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{"f:port":{}}}}}`)},
			want:   []metav1.ManagedFieldsEntry{managedFieldsEntry("holdfast", "Apply", "", `{"f:spec":{"f:probe":{"f:httpGet":{".":{},"f:port":{}}}}}`)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, changed, err := TransferFields(appsapi.DefaultKeys.FieldManager, tc.before, "apps/v1", []UnionConflict{conflict})
			if err != nil || changed != tc.changed {
				t.Fatalf("changed: %t, %v", changed, err)
			}
			if diff := cmp.Diff(managedFieldLines(tc.want), managedFieldLines(got)); diff != "" {
				t.Error(diff)
			}
			if _, changed, err := TransferFields(appsapi.DefaultKeys.FieldManager, got, "apps/v1", []UnionConflict{conflict}); changed || err != nil {
				t.Errorf("second transfer: changed: %t, %v", changed, err)
			}
		})
	}
}

func managedFieldLines(entries []metav1.ManagedFieldsEntry) []string {
	var lines []string
	for _, p := range entries {
		lines = append(lines, fmt.Sprint(p.Manager, p.Operation, p.Subresource, p.APIVersion, p.FieldsV1.GetRawString()))
	}
	return lines
}
