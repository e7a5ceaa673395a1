package activity

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

func TestLogIsBounded(t *testing.T) {
	start := time.Unix(1e9, 0)
	c := clocktesting.NewFakePassiveClock(start)
	d := New(c, Limits{PerApplication: 3, Total: 5, Fields: 2})
	add := func(app string, n int) {
		c.SetTime(c.Now().Add(time.Second))
		d.Add(app, Entry{Type: Changed, Message: fmt.Sprint(n)})
	}
	list := func(app string) (out []string, since time.Duration) {
		entries, s := d.List(app)
		for _, e := range entries {
			out = append(out, e.Message)
		}
		return out, s.Sub(start)
	}
	check := func(app string, since time.Duration, want ...string) {
		t.Helper()
		got, s := list(app)
		if diff := cmp.Diff(want, got); diff != "" || s != since {
			t.Errorf("%s since %s, want %s (-want +got):\n%s", app, s, since, diff)
		}
	}
	check("a", 0)
	add("a", 1)
	add("a", 2)
	check("a", 0, "2", "1")
	add("a", 3)
	add("a", 4) // exceeds PerApplication
	check("a", time.Second, "4", "3", "2")
	add("b", 5)
	add("b", 6)
	add("b", 7) // exceeds Total: the oldest entry is dropped
	check("a", 2*time.Second, "4", "3")
	check("b", 0, "7", "6", "5")
	for n := range 20 {
		add("c", n)
	}
	check("a", 4*time.Second)
	check("c", 24*time.Second, "19", "18", "17")
	if d.Len() > 5 {
		t.Errorf("%d entries", d.Len())
	}
	d.Add("d", Entry{Fields: make([]objdiff.FieldChange, 10)})
	if got, _ := d.List("d"); len(got[0].Fields) != 2 {
		t.Errorf("%d fields", len(got[0].Fields))
	}
}

func TestPodStateOf(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted",
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}}}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			{Name: "side", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "new"},
		}}}
	want := &PodState{Phase: "Failed", Reason: "Evicted", Node: "n", Containers: []ContainerState{
		{Name: "init", State: "Terminated", Reason: "Completed", ExitCode: new(int32)},
		{Name: "app", State: "Waiting", Reason: "CrashLoopBackOff", Restarts: 3}, {Name: "side", State: "Running"}, {Name: "new", State: "Waiting"},
	}}
	if diff := cmp.Diff(want, PodStateOf(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
