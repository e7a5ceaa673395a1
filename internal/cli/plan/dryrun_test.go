package plan

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// TestNeedsTransfer covers fields that conflict with a declared field. Fields of other managers are a
// conflict unless the object allows a takeover; own fields are removed by the apply.
func TestNeedsTransfer(t *testing.T) {
	cases := map[string]struct {
		manager, operation, annotation string
		transfer, conflict             bool
	}{
		"other manager":                       {manager: "kubectl-edit", operation: "Update", conflict: true},
		"other manager, take-ownership":       {manager: "kubectl-edit", operation: "Update", annotation: "apps.holdfast.dev/take-ownership", transfer: true},
		"other manager, adopted object":       {manager: "kubectl-edit", operation: "Update", annotation: "apps.holdfast.dev/adopt", transfer: true},
		"other manager, unrelated annotation": {manager: "kubectl-edit", operation: "Update", annotation: "example.com/other", conflict: true},
		"own field of an earlier spec":        {manager: "holdfast", operation: "Apply"},
	}
	want := map[string]any{"spec": map[string]any{"type": "ClusterIP"}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerSourceRanges: []string{"10.0.0.0/8"}}}
			service.Annotations = map[string]string{tc.annotation: "true"}
			service.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: tc.manager, Operation: metav1.ManagedFieldsOperationType(tc.operation),
				APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:loadBalancerSourceRanges":{}}}`)}}
			d := &dryRun{owner: desired.Owner{Keys: appsapi.DefaultKeys, Kind: "AppService", Namespace: "shop", Name: "web"}}
			transfer, err := d.needsTransfer(simulate.Apply{ID: desired.ID{Kind: desired.KindService, Name: "web"}, Stored: service}, want)
			var conflict *fieldmanager.FieldConflict
			if transfer != tc.transfer || errors.As(err, &conflict) != tc.conflict {
				t.Errorf("transfer %t, %v", transfer, err)
			}
			if !tc.conflict && err != nil {
				t.Error(err)
			}
		})
	}
}
