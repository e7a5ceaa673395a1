package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTerminatingMessageNamesTheDeadline(t *testing.T) {
	for grace, want := range map[*int64]string{
		nil:             "Waiting for Pod shop/db-0 to terminate (deletion requested at 2026-01-02T03:14:00Z, killed at 2026-01-02T03:14:00Z)",
		new(int64(30)):  "Waiting for Pod shop/db-0 to terminate (deletion requested at 2026-01-02T03:13:30Z, killed at 2026-01-02T03:14:00Z)",
		new(int64(600)): "Waiting for Pod shop/db-0 to terminate (deletion requested at 2026-01-02T03:04:00Z, killed at 2026-01-02T03:14:00Z); to kill it now: kubectl delete pod -n shop db-0 --grace-period=1",
	} {
		if got := TerminatingMessage(terminatingPod("db-0", 0, grace)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLastTerminatingMayRunLongest(t *testing.T) {
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "running"}}
	for want, pods := range map[string][]*corev1.Pod{
		"":      {running},
		"later": {terminatingPod("a", 0, nil), running, terminatingPod("later", time.Minute, nil)},
		"first": {terminatingPod("second", 0, nil), terminatingPod("first", 0, nil), terminatingPod("third", 0, nil)},
	} {
		got := ""
		if p := LastTerminating(pods); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func terminatingPod(name string, after time.Duration, grace *int64) *corev1.Pod {
	end := metav1.NewTime(time.Date(2026, 1, 2, 3, 14, 0, 0, time.UTC).Add(after))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, DeletionTimestamp: &end, DeletionGracePeriodSeconds: grace}}
}
