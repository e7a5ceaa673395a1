package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// diagnosePods explains pods without other objects.
func diagnosePods(pods []*corev1.Pod, now time.Time) ([]Cause, time.Time) {
	a := Explain(Snapshot{Keys: appsapi.DefaultKeys, Pods: pods}, now)
	return a.Causes, a.RecheckAt
}

// diagnoseJob explains a job and its pods.
func diagnoseJob(job *batchv1.Job, pods []*corev1.Pod, now time.Time) ([]Cause, time.Time) {
	a := Explain(Snapshot{Keys: appsapi.DefaultKeys, Workload: job, Pods: pods}, now)
	return a.Causes, a.RecheckAt
}

// diagnoseMissingRefs explains pods whose volumes refer to missing objects.
func diagnoseMissingRefs(pods []*corev1.Pod, missing []Ref) []Cause {
	return Explain(Snapshot{Keys: appsapi.DefaultKeys, Pods: pods, MissingRefs: missing}, testNow).Causes
}

// ignoreAffectedPods ignores the number of affected pods, which is also in the evidence.
var ignoreAffectedPods = cmpopts.IgnoreFields(Cause{}, "AffectedPods")

// snapshotCase is a snapshot and its full diagnosis.
type snapshotCase struct {
	snapshot Snapshot
	want     Diagnosis
}

// checkDiagnoses explains each snapshot at testNow and compares the full diagnosis.
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

// oneCause returns a diagnosis with one cause and no recheck.
func oneCause(c Cause) Diagnosis { return Diagnosis{Causes: []Cause{c}} }
