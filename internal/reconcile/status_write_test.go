package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestShouldWriteStatus checks which differences cause a status write.
func TestShouldWriteStatus(t *testing.T) {
	count := func(a *appsapi.AppService) { a.Status.Replicas = 3 }
	cases := map[string]struct {
		ready   metav1.ConditionStatus
		change  func(*appsapi.AppService)
		want    bool
		settled bool
	}{
		"settled count while not ready": {ready: metav1.ConditionFalse, change: count, settled: true, want: true},
		"no change, settled":            {ready: metav1.ConditionFalse, change: func(*appsapi.AppService) {}, settled: true},
		"no change, ready":              {ready: metav1.ConditionTrue, change: func(*appsapi.AppService) {}, want: false},
		"no change, not ready":          {ready: metav1.ConditionFalse, change: func(*appsapi.AppService) {}, want: false},
		"count during a rollout":        {ready: metav1.ConditionFalse, change: count, want: false},
		"count while ready":             {ready: metav1.ConditionTrue, change: count, want: true},
		"empty list":                    {ready: metav1.ConditionTrue, change: func(a *appsapi.AppService) { a.Status.Causes = []appsapi.Cause{} }, want: false},
		"changed selector":              {ready: metav1.ConditionTrue, change: func(a *appsapi.AppService) { a.Status.Selector = "app=web" }, want: true},
		"transition during a rollout":   {ready: metav1.ConditionFalse, change: func(a *appsapi.AppService) { a.Status.ObservedGeneration++ }, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app := &appsapi.AppService{}
			app.Status.Conditions = []metav1.Condition{{Type: appsapi.ConditionReady, Status: tc.ready}}
			next := app.DeepCopy()
			tc.change(next)
			if got := shouldWriteStatus(app, next, tc.settled); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// The containers of a crash loop become ready and unready all the time.
func TestCountsSettle(t *testing.T) {
	at := metav1.NewTime(noon)
	earlier := metav1.NewTime(noon.Add(-time.Hour))
	pod := func(created, changed metav1.Time) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, LastTransitionTime: at}, {Type: corev1.PodReady, LastTransitionTime: changed}}}}
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want time.Time
	}{
		"new pod":           {[]*corev1.Pod{pod(earlier, earlier), pod(at, earlier)}, noon.Add(10 * time.Second)},
		"changed readiness": {[]*corev1.Pod{pod(earlier, at), pod(earlier, earlier)}, noon.Add(10 * time.Second)},
		"no change":         {[]*corev1.Pod{pod(earlier, earlier)}, earlier.Add(10 * time.Second)},
	} {
		if got := countsSettleAt(tc.pods); !got.Equal(tc.want) {
			t.Errorf("%s: settled at %s, want %s", name, got, tc.want)
		}
	}
}
