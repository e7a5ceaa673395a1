package explain

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// TestUnmanagedFixesUseKubernetesTerms checks that fixes for objects that Holdfast does not manage name no
// fields of an application.
func TestUnmanagedFixesUseKubernetesTerms(t *testing.T) {
	files, err := filepath.Glob(causesDir + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var fixes []string
	for _, file := range files {
		s, f := readFixture(t, file)
		managed := Explain(s, f.Now).Causes
		s.Unmanaged = true
		for i, c := range Explain(s, f.Now).Causes {
			if c.Message != managed[i].Message {
				t.Errorf("%s: %q, want %q as for managed objects", file, c.Message, managed[i].Message)
			}
			if c.Fix != managed[i].Fix {
				fixes = append(fixes, fmt.Sprintf("%s: %s\n", c.Code, c.Fix))
			}
			if strings.Contains(c.Fix, "spec.") || strings.Contains(c.Fix, "component") || strings.Contains(c.Fix, "of the application") && s.Workload != nil {
				t.Errorf("%s: fix names fields of an application: %s", file, c.Fix)
			}
		}
	}
	slices.Sort(fixes)
	golden.Check(t, "foreign.txt", strings.Join(slices.Compact(fixes), ""))
}

// TestUnmanagedWorkloads covers workloads that Holdfast does not create.
func TestUnmanagedWorkloads(t *testing.T) {
	old := metav1.ObjectMeta{Namespace: "shop", Name: "agent", CreationTimestamp: metav1.NewTime(testNow.Add(-time.Hour)), Generation: 1}
	gone := old
	gone.DeletionTimestamp = new(metav1.NewTime(testNow))
	changed := old
	changed.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(testNow.Add(-time.Minute)))}}
	seen := appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 1}
	agent := func(m metav1.ObjectMeta) *appsv1.DaemonSet { return &appsv1.DaemonSet{ObjectMeta: m, Status: seen} }
	refusal := Event{Object: ObjectRef{Kind: "DaemonSet", Name: "agent"}, Reason: "FailedCreate", LastSeen: testNow.Add(-time.Minute), Message: `pods "agent-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=9, limited: pods=9`}
	quota := []appsv1.ReplicaSetCondition{{Type: "ReplicaFailure", Status: "True", Message: refusal.Message}}
	evicted := pod("agent-1", phase("Failed", "Evicted"), created(time.Minute), func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "False", LastTransitionTime: metav1.NewTime(testNow.Add(-time.Minute))}}
	})
	cases := map[string]struct {
		snapshot Snapshot
		want     []string
	}{
		"DaemonSet lacks pods":        {Snapshot{Workload: agent(old)}, []string{"ask DaemonSet agent"}},
		"DaemonSet pods are rejected": {Snapshot{Workload: agent(old), Events: []Event{refusal}}, []string{"QuotaExceeded DaemonSet agent"}},
		"DaemonSet is deleted":        {Snapshot{Workload: agent(gone), Events: []Event{refusal}}, nil},
		"DaemonSet is not observed": {Snapshot{Workload: &appsv1.DaemonSet{ObjectMeta: changed}},
			[]string{"SpecNotObserved DaemonSet agent"}},
		"DaemonSet pod is evicted": {Snapshot{Workload: agent(old), Pods: []*corev1.Pod{evicted}}, []string{"Evicted Pod agent-1"}},
		"ReplicaSet pods are rejected": {Snapshot{Workload: &appsv1.ReplicaSet{ObjectMeta: old,
			Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, Conditions: quota}}}, []string{"QuotaExceeded ReplicaSet agent"}},
		"ReplicaSet is scaled to zero": {Snapshot{Workload: &appsv1.ReplicaSet{ObjectMeta: old,
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}, Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1}}},
			[]string{"ScaledToZero ReplicaSet agent"}},
		"ReplicaSet is deleted": {Snapshot{Workload: &appsv1.ReplicaSet{ObjectMeta: gone,
			Status: appsv1.ReplicaSetStatus{Conditions: quota}}}, nil},
		"standalone pod is evicted":      {Snapshot{Workload: evicted, Pods: []*corev1.Pod{evicted}}, []string{"Evicted Pod agent-1"}},
		"evicted pod without a workload": {Snapshot{Pods: []*corev1.Pod{evicted}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			a := Explain(tc.snapshot, testNow)
			for _, c := range a.Causes {
				got = append(got, fmt.Sprintf("%s %s", c.Code, c.Object))
			}
			for _, o := range a.EventsNeeded {
				got = append(got, fmt.Sprintf("ask %s", o))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestUnmanagedFixNamesWorkload(t *testing.T) {
	m := metav1.ObjectMeta{Name: "x"}
	for want, workload := range map[string]runtime.Object{
		"Correct image of Deployment x": &appsv1.Deployment{ObjectMeta: m}, "Correct image of StatefulSet x": &appsv1.StatefulSet{ObjectMeta: m},
		"Correct image of DaemonSet x": &appsv1.DaemonSet{ObjectMeta: m}, "Correct image of ReplicaSet x": &appsv1.ReplicaSet{ObjectMeta: m},
		"Correct image of Job x": &batchv1.Job{ObjectMeta: m}, "Correct image of CronJob x": &batchv1.CronJob{ObjectMeta: m},
		"Correct image of Pod x": &corev1.Pod{ObjectMeta: m}, "Correct image of the application": nil,
	} {
		s := Snapshot{Workload: workload}
		if got := s.unmanagedFix("Correct spec.image of the application"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
