package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// diagnosePods explains pods alone.
func diagnosePods(pods []*corev1.Pod, now time.Time) ([]Cause, time.Time) {
	a := Explain(Snapshot{Pods: pods}, now)
	return a.Causes, a.RecheckAt
}

// diagnoseJob explains a job and its pods.
func diagnoseJob(job *batchv1.Job, pods []*corev1.Pod, now time.Time) ([]Cause, time.Time) {
	a := Explain(Snapshot{Workload: job, Pods: pods}, now)
	return a.Causes, a.RecheckAt
}

// diagnoseMissingRefs explains pods whose volumes show what does not exist.
func diagnoseMissingRefs(pods []*corev1.Pod, missing []Ref) []Cause {
	return Explain(Snapshot{Pods: pods, MissingRefs: missing}, testNow).Causes
}

// ignoreAffectedPods leaves out how many pods a cause affects: its evidence says so, too.
var ignoreAffectedPods = cmpopts.IgnoreFields(Cause{}, "AffectedPods")

// snapshotCase is a snapshot and its full diagnosis.
type snapshotCase struct {
	snapshot Snapshot
	want     Diagnosis
}

// checkDiagnoses explains each snapshot at testNow and compares everything that is said about it.
func checkDiagnoses(t *testing.T, cases map[string]snapshotCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Explain(tc.snapshot, testNow)); diff != "" {
				t.Errorf("diagnosis (-want +got):\n%s", diff)
			}
		})
	}
}

// oneCause is the diagnosis of a snapshot with one cause that time alone does not change.
func oneCause(c Cause) Diagnosis { return Diagnosis{Causes: []Cause{c}} }
