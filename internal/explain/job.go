package explain

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// appContainer is the main container of a job. Messages name the container only if it is another one,
// for example an injected sidecar.
const appContainer = "app"

// reasonEvicted is status.reason of a pod that the kubelet evicted.
const reasonEvicted = "Evicted"

// checkJob checks a job and returns true if its pods need not be checked. A failed job has one cause,
// derived from its newest failed pod, because its pods are not retried. The pods of a running job are
// checked like those of other workloads. A job that has completed or is being deleted has no causes,
// whatever the result of earlier attempts.
func (e *explainer) checkJob(checkJob *batchv1.Job) bool {
	if checkJob == nil || checkJob.DeletionTimestamp != nil || jobCondition(checkJob, batchv1.JobComplete) != nil {
		return true
	}
	o := newObjectRef("Job", checkJob)
	if c := jobCondition(checkJob, batchv1.JobFailed); c != nil {
		e.addCause(o, checkJob.Name, jobFailedCause(checkJob, c, newestFailedPod(e.snapshot.Pods)))
		return true
	}
	if checkJob.Spec.Suspend != nil && *checkJob.Spec.Suspend {
		e.addCause(o, checkJob.Name, Cause{
			Code: Suspended, Path: "spec.suspend", Value: "true", Since: checkJob.CreationTimestamp.Time,
			Message: fmt.Sprintf("Job %s is suspended, so it does not run", checkJob.Name),
			Fix:     fmt.Sprintf(`Resume it: kubectl patch -n %s job/%s -p '{"spec":{"suspend":false}}'`, checkJob.Namespace, checkJob.Name),
		})
		return true
	}
	return false
}

// jobFailedCause returns the cause for a failed job. The pod is nil if no failed pod is left.
func jobFailedCause(job *batchv1.Job, c *batchv1.JobCondition, pod *corev1.Pod) Cause {
	began := c.LastTransitionTime.Time
	if began.IsZero() {
		began = job.CreationTimestamp.Time
	}
	message := fmt.Sprintf("Job %s/%s failed: %s", job.Namespace, job.Name, describeJobFailure(job, c, pod))
	fix := fmt.Sprintf("Check its logs: kubectl logs -n %s job/%s; then correct the job, or delete the Job to run it again", job.Namespace,
		job.Name)
	return Cause{
		Code: JobFailed,
		Path: "status.conditions", Value: plaintext.Line(c.Reason, maxEvidence/4), Since: began,
		Message: message, Fix: fix,
		Evidence: jobEvidence(job, c, pod),
	}
}

// describeJobFailure ignores the pods of a job that exceeded its deadline: the Job controller killed
// them, so their exit codes mean nothing.
func describeJobFailure(job *batchv1.Job, c *batchv1.JobCondition, pod *corev1.Pod) string {
	if c.Reason == batchv1.JobReasonDeadlineExceeded {
		if limit := job.Spec.ActiveDeadlineSeconds; limit != nil {
			return fmt.Sprintf("it exceeded activeDeadlineSeconds (%d s)", *limit)
		}
		return "it exceeded activeDeadlineSeconds"
	}
	if text := describePodFailure(pod); text != "" {
		return text
	}
	switch c.Reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		return "all retries failed (backoffLimit reached)"
	case batchv1.JobReasonPodFailurePolicy:
		return "a pod failed and podFailurePolicy does not allow a retry"
	}
	return "see its conditions"
}

// describePodFailure describes how a failed pod terminated, as the end of a message about its job; "" if
// unknown.
func describePodFailure(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return ""
	case pod.Status.Reason == reasonEvicted:
		return "its pod was evicted"
	case pod.Status.Reason != "":
		return "its pod was rejected or terminated by its node"
	}
	c, d := failedContainer(pod)
	if d == nil {
		return ""
	}
	label := "its container"
	if c.isInit {
		label = "its init container"
	}
	if c.isInit || c.status.Name != appContainer {
		label += " " + abbreviate(c.status.Name)
	}
	return label + " " + c.describeTermination(d)
}

// describeTermination describes how the container terminated.
func (c container) describeTermination(d *corev1.ContainerStateTerminated) string {
	switch {
	case d.Reason == reasonOOMKilled:
		if limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
			return fmt.Sprintf("was killed because it used more than its memory limit of %s", limit.String())
		}
		return "was killed by the OOM killer"
	case d.Reason == reasonUnknown || d.Reason == reasonStatusUnknown:
		return "was lost and its exit status is unknown"
	case d.Reason == reasonStartError || d.Reason == reasonCannotRun:
		return fmt.Sprintf("cannot be started: the container runtime cannot start its command (exit code %d)", d.ExitCode)
	case d.ExitCode == exitSIGKILL || d.ExitCode == exitSIGTERM:
		return fmt.Sprintf("was killed (exit code %d)", d.ExitCode)
	}
	return fmt.Sprintf("exited with code %d", d.ExitCode)
}

// failedContainer returns the container that made a pod fail and its termination; nil if there is none.
// The main container of the job comes first, then the init containers. Sidecars are skipped: they do
// not make a pod fail, and are killed when the other containers have terminated.
func failedContainer(pod *corev1.Pod) (container, *corev1.ContainerStateTerminated) {
	var all []container
	for i := range pod.Status.InitContainerStatuses {
		if c := containerOf(pod, true, i); c.isInit {
			all = append(all, c)
		}
	}
	for i := range pod.Status.ContainerStatuses {
		c := containerOf(pod, false, i)
		if c.status.Name == appContainer {
			all = append([]container{c}, all...)
			continue
		}
		all = append(all, c)
	}
	for _, c := range all {
		if d, _ := c.lastTermination(); d != nil && (d.ExitCode != 0 || d.Reason == reasonOOMKilled) {
			return c, d
		}
	}
	return container{}, nil
}

// jobEvidence returns the evidence for a failed job. The output of its newest pod can contain secrets,
// so it is evidence only.
func jobEvidence(job *batchv1.Job, c *batchv1.JobCondition, pod *corev1.Pod) []string {
	all := evidence(fmt.Sprintf("failed pods: %d", job.Status.Failed), c.Message)
	if pod == nil {
		return all
	}
	all = append(all, "newest failed pod: "+pod.Name)
	if pod.Status.Reason != "" {
		return append(all, evidence(fmt.Sprintf("reason %q", plaintext.Line(pod.Status.Reason, maxEvidence/4)), pod.Status.Message)...)
	}
	if _, d := failedContainer(pod); d != nil {
		all = append(all, terminationEvidence(d)...)
	}
	return all
}

// newestFailedPod returns the newest failed pod that is not being deleted. The result does not depend on
// the order of the pods.
func newestFailedPod(pods []*corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range pods {
		if pod == nil || !hasFailed(pod) {
			continue
		}
		if newest == nil || cmp.Or(pod.CreationTimestamp.Compare(newest.CreationTimestamp.Time), cmp.Compare(pod.Name, newest.Name)) > 0 {
			newest = pod
		}
	}
	return newest
}

// hasFailed reports whether a pod has failed and is not being deleted.
func hasFailed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil
}

// jobCondition returns the condition of a Job if it is True.
func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
