package cloudmanager

import (
	"testing"

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
		"no conditions":                 {want: "Pending"},
		"only other conditions":         {conditions: []metav1.Condition{reconciling}, want: "Pending"},
		"not readable":                  {conditions: []metav1.Condition{ready("Unknown", "InternalError")}, want: "Pending"},
		"everything runs":               {conditions: []metav1.Condition{ready("True", "Reconciled")}, want: "Ready"},
		"being deleted":                 {conditions: []metav1.Condition{ready("False", "Deleting"), reconciling}, want: "Deleting"},
		"a stalled deletion":            {conditions: []metav1.Condition{ready("False", "Deleting"), stalled}, want: "Deleting"},
		"progressing":                   {conditions: []metav1.Condition{ready("False", "Progressing"), reconciling}, want: "Progressing"},
		"a component waits for another": {conditions: []metav1.Condition{ready("False", "WaitingForDependency"), reconciling}, want: "Progressing"},
		"a volume expansion":            {conditions: []metav1.Condition{ready("False", "StorageResizing"), reconciling}, want: "Progressing"},
		"a starting database":           {conditions: []metav1.Condition{ready("False", "DatabaseStarting"), reconciling}, want: "Progressing"},
		"progressing, but stalled":      {conditions: []metav1.Condition{ready("False", "Progressing"), stalled}, want: "Degraded"},
		"a broken image":                {conditions: []metav1.Condition{ready("False", "ComponentDegraded"), reconciling}, want: "Degraded"},
		"a name conflict":               {conditions: []metav1.Condition{ready("False", "NameConflict"), reconciling}, want: "Degraded"},
		"lost credentials":              {conditions: []metav1.Condition{ready("False", "CredentialsLost"), reconciling}, want: "Degraded"},
		"an unknown reason":             {conditions: []metav1.Condition{ready("False", "SomethingNew"), reconciling}, want: "Degraded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := phase(tc.conditions); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
