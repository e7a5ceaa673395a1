package diary

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/fields"
)

func TestDiary(t *testing.T) {
	start := time.Unix(1e9, 0)
	c := clocktesting.NewFakePassiveClock(start)
	d := New(c, Limits{Each: 3, All: 5, Fields: 2})
	write := func(app string, n int) {
		c.SetTime(c.Now().Add(time.Second))
		d.Write(app, Entry{What: Changed, Sentence: fmt.Sprint(n)})
	}
	read := func(app string) (out []string, since time.Duration) {
		entries, s := d.Read(app)
		for _, e := range entries {
			out = append(out, e.Sentence)
		}
		return out, s.Sub(start)
	}
	check := func(app string, since time.Duration, want ...string) {
		t.Helper()
		got, s := read(app)
		if diff := cmp.Diff(want, got); diff != "" || s != since {
			t.Errorf("%s since %s, want %s (-want +got):\n%s", app, s, since, diff)
		}
	}
	check("a", 0)
	write("a", 1)
	write("a", 2)
	check("a", 0, "2", "1")
	write("a", 3)
	write("a", 4) // one too many of a
	check("a", time.Second, "4", "3", "2")
	write("b", 5)
	write("b", 6)
	write("b", 7) // one too many of all: the oldest goes
	check("a", 2*time.Second, "4", "3")
	check("b", 0, "7", "6", "5")
	for n := range 20 {
		write("c", n)
	}
	check("a", 4*time.Second)
	check("c", 24*time.Second, "19", "18", "17")
	if d.Len() > 5 {
		t.Errorf("%d entries", d.Len())
	}
	d.Write("d", Entry{Fields: make([]fields.Field, 10)})
	if got, _ := d.Read("d"); len(got[0].Fields) != 2 {
		t.Errorf("%d fields", len(got[0].Fields))
	}
}

func TestLastOf(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted",
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}}}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			{Name: "side", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "new"},
		}}}
	want := &LastState{Phase: "Failed", Reason: "Evicted", Node: "n", Containers: []Container{
		{Name: "init", State: "Terminated", Reason: "Completed", ExitCode: new(int32)},
		{Name: "app", State: "Waiting", Reason: "CrashLoopBackOff", Restarts: 3}, {Name: "side", State: "Running"}, {Name: "new", State: "Waiting"},
	}}
	if diff := cmp.Diff(want, LastOf(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
