package reconcile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestShouldWriteStatus checks which differences cause a status write.
func TestShouldWriteStatus(t *testing.T) {
	count := func(a *appsapi.AppService) { a.Status.Replicas = 3 }
	cases := map[string]struct {
		ready  metav1.ConditionStatus
		change func(*appsapi.AppService)
		want   bool
	}{
		"no change, ready":            {metav1.ConditionTrue, func(*appsapi.AppService) {}, false},
		"no change, not ready":        {metav1.ConditionFalse, func(*appsapi.AppService) {}, false},
		"count during a rollout":      {metav1.ConditionFalse, count, false},
		"count while ready":           {metav1.ConditionTrue, count, true},
		"empty list":                  {metav1.ConditionTrue, func(a *appsapi.AppService) { a.Status.Causes = []appsapi.Cause{} }, false},
		"changed selector":            {metav1.ConditionTrue, func(a *appsapi.AppService) { a.Status.Selector = "app=web" }, true},
		"transition during a rollout": {metav1.ConditionFalse, func(a *appsapi.AppService) { a.Status.ObservedGeneration++ }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app := &appsapi.AppService{}
			app.Status.Conditions = []metav1.Condition{{Type: appsapi.ConditionReady, Status: tc.ready}}
			next := app.DeepCopy()
			tc.change(next)
			if got := shouldWriteStatus(app, next); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
