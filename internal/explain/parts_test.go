package explain

import (
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Pods explains pods alone.
func Pods(pods []*corev1.Pod, now time.Time) ([]Cause, time.Time) {
	a := Explain(Scene{Pods: pods}, now)
	return a.Causes, a.Again
}

// Job explains a job and its pods.
func Job(job *batchv1.Job, pods []*corev1.Pod, now time.Time) ([]Cause, time.Time) {
	a := Explain(Scene{Workload: job, Pods: pods}, now)
	return a.Causes, a.Again
}

// Unmounted explains pods whose volumes show what does not exist.
func Unmounted(pods []*corev1.Pod, missing []Ref) []Cause {
	return Explain(Scene{Pods: pods, Absent: missing}, noon).Causes
}

// counted leaves out how many pods a cause affects: its evidence says so, too.
var counted = cmpopts.IgnoreFields(Cause{}, "Affects")
