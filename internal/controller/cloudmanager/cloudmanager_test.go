package cloudmanager

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestPhase(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: "Ready", Status: status, Reason: reason}
	}
	stalled := metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue}
	reconciling := metav1.Condition{Type: "Reconciling", Status: metav1.ConditionTrue}
	tests := map[string]struct {
		conditions []metav1.Condition
		want       appsapi.Phase
	}{
		"nothing said yet":         {want: "Pending"},
		"only what else there is":  {conditions: []metav1.Condition{reconciling}, want: "Pending"},
		"not readable":             {conditions: []metav1.Condition{ready("Unknown", "InternalError")}, want: "Pending"},
		"everything runs":          {conditions: []metav1.Condition{ready("True", "Reconciled")}, want: "Ready"},
		"being deleted":            {conditions: []metav1.Condition{ready("False", "Deleting"), reconciling}, want: "Deleting"},
		"a deletion that hangs":    {conditions: []metav1.Condition{ready("False", "Deleting"), stalled}, want: "Deleting"},
		"on its way":               {conditions: []metav1.Condition{ready("False", "Progressing"), reconciling}, want: "Progressing"},
		"one waits for another":    {conditions: []metav1.Condition{ready("False", "WaitingForDependency"), reconciling}, want: "Progressing"},
		"the volume grows":         {conditions: []metav1.Condition{ready("False", "StorageResizing"), reconciling}, want: "Progressing"},
		"on its way for too long":  {conditions: []metav1.Condition{ready("False", "Progressing"), stalled}, want: "Degraded"},
		"a broken image":           {conditions: []metav1.Condition{ready("False", "ComponentDegraded"), reconciling}, want: "Degraded"},
		"a name that is taken":     {conditions: []metav1.Condition{ready("False", "NameConflict"), reconciling}, want: "Degraded"},
		"the password is lost":     {conditions: []metav1.Condition{ready("False", "CredentialsLost"), reconciling}, want: "Degraded"},
		"a reason of a later time": {conditions: []metav1.Condition{ready("False", "SomethingNew"), reconciling}, want: "Degraded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := phase(tc.conditions); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Revisions can be read by people who may not read Secrets.
func TestHistoryHasNoPassword(t *testing.T) {
	cm := &appsapi.CloudManager{Spec: appsapi.CloudManagerSpec{
		DeletionPolicy: appsapi.DeletionDelete,
		DB: appsapi.CloudManagerDatabase{RootPass: "123456", StatefulSet: appsapi.CloudManagerStatefulSet{
			Image: "mariadb:10.3.35", Storage: appsapi.CloudManagerStorage{Size: resource.MustParse("20Gi")},
		}},
	}}
	before := cm.DeepCopy()
	spec, limit := history(cm)
	got, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"front":{"deployment":{"image":""}},"identity":{"deployment":{"image":""}},"db":{"statefulSet":{"image":"mariadb:10.3.35","storage":{"size":"20Gi"}}}}`
	if string(got) != want || limit != 0 {
		t.Errorf("remembered %s (limit %d), want %s", got, limit, want)
	}
	if diff := cmp.Diff(before, cm); diff != "" {
		t.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}
