package explain

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A Service of one pod has no endpoint while the pod is restarted, however old the pod is.
func TestNoReadyEndpointsGraceDuringRestart(t *testing.T) {
	now := time.Unix(1e9, 0)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	labels := map[string]string{"app": "db", "a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}
	cases := map[string]struct {
		change func(*corev1.Pod)
		found  bool
	}{
		"nobody answers for long": {func(*corev1.Pod) {}, true},
		"the pod is going":        {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(-30 * time.Second)) }, false},
		"the pod is gone soon":    {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(0)) }, false},
		"it is ready, just now": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Second)}}
		}, false},
		"it is not ready, just now": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Second)}}
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0", Labels: labels, CreationTimestamp: ago(time.Hour)}}
			tc.change(pod)
			s := Snapshot{
				Workload: &appsv1.StatefulSet{},
				Pods:     []*corev1.Pod{pod},
				Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}}},
				EndpointSlices: []*discoveryv1.EndpointSlice{{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
					Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}},
				}},
			}
			found := slices.ContainsFunc(Explain(s, now).Causes, func(c Cause) bool { return c.Code == NoReadyEndpoints })
			if found != tc.found {
				t.Errorf("found: %t", found)
			}
		})
	}
}
