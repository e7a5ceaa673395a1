package explain

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// appContainer is the container that a job is about. Others were put into its pods by
// somebody else and have to be named.
const appContainer = "app"

// reasonEvicted is the reason of a pod whose node needed back what it used.
const reasonEvicted = "Evicted"

// checkJob explains why a job has not done its work, and says whether that is all there is to
// say. One that has failed has one cause, told by how its newest failed pod ended: none of
// its pods is tried again, so what else they say helps nobody. While it runs, its pods are
// explained like any others. A job that is done, or being deleted, has nothing to explain,
// whatever its earlier tries came to.
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
			Fix:     fmt.Sprintf(`Let it run: kubectl patch -n %s job/%s -p '{"spec":{"suspend":false}}'`, checkJob.Namespace, checkJob.Name),
		})
		return true
	}
	return false
}

// jobFailedCause is about a job that has failed. The pod is nil if none is left to tell.
func jobFailedCause(job *batchv1.Job, c *batchv1.JobCondition, pod *corev1.Pod) Cause {
	began := c.LastTransitionTime.Time
	if began.IsZero() {
		began = job.CreationTimestamp.Time
	}
	message := fmt.Sprintf("Job %s/%s failed: %s", job.Namespace, job.Name, describeJobFailure(job, c, pod))
	fix := fmt.Sprintf("Look at the log: kubectl logs -n %s job/%s; then correct the job, or delete the Job to run it again", job.Namespace, job.Name)
	return Cause{
		Code: JobFailed,
		Path: "status.conditions", Value: sanitize(c.Reason, maxEvidence/4), Since: began,
		Message: message, Fix: fix,
		Evidence: jobEvidence(job, c, pod),
	}
}

// describeJobFailure does not ask the pods of a job that took too long: how they ended was then
// decided by those who ended them.
func describeJobFailure(job *batchv1.Job, c *batchv1.JobCondition, pod *corev1.Pod) string {
	if c.Reason == batchv1.JobReasonDeadlineExceeded {
		if limit := job.Spec.ActiveDeadlineSeconds; limit != nil {
			return fmt.Sprintf("it took longer than %d s", *limit)
		}
		return "it took longer than activeDeadlineSeconds allows"
	}
	if text := describePodFailure(pod); text != "" {
		return text
	}
	switch c.Reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		return "every try failed"
	case batchv1.JobReasonPodFailurePolicy:
		return "its pods failed in a way that is not tried again"
	}
	return "see its conditions"
}

// describePodFailure is how a failed pod ended, in words that follow those about its job; empty if
// the pod does not tell.
func describePodFailure(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return ""
	case pod.Status.Reason == reasonEvicted:
		return "its pod was evicted by its node"
	case pod.Status.Reason != "":
		return "its pod was turned away or ended by its node"
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

// describeTermination is how the container ended.
func (c container) describeTermination(d *corev1.ContainerStateTerminated) string {
	switch {
	case d.Reason == reasonOOMKilled:
		if limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
			return fmt.Sprintf("was killed because it used more than its memory limit of %s", limit.String())
		}
		return "was killed for its use of memory"
	case d.Reason == reasonUnknown || d.Reason == reasonStatusUnknown:
		return "was lost, and how it ended is not known"
	case d.Reason == reasonStartError || d.Reason == reasonCannotRun:
		return fmt.Sprintf("cannot be started: its command failed before it ran (exit code %d)", d.ExitCode)
	case d.ExitCode == exitSIGKILL || d.ExitCode == exitSIGTERM:
		return fmt.Sprintf("was killed (exit code %d)", d.ExitCode)
	}
	return fmt.Sprintf("ended with exit code %d", d.ExitCode)
}

// failedContainer is the container that a pod failed for, and its end; nil if there is none. The
// job's own container goes first, then those that had to end before it. A sidecar does
// not make a pod fail, and is killed when the others have ended.
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

// jobEvidence is what else is known about a job that has failed. The output of its newest pod
// may contain anything, secrets included, so it is here and nowhere else.
func jobEvidence(job *batchv1.Job, c *batchv1.JobCondition, pod *corev1.Pod) []string {
	all := evidence(fmt.Sprintf("tries: %d", job.Status.Failed), c.Message)
	if pod == nil {
		return all
	}
	all = append(all, "newest failed pod: "+pod.Name)
	if pod.Status.Reason != "" {
		return append(all, evidence(fmt.Sprintf("reason %q", sanitize(pod.Status.Reason, maxEvidence/4)), pod.Status.Message)...)
	}
	if _, d := failedContainer(pod); d != nil {
		all = append(all, terminationEvidence(d)...)
	}
	return all
}

// newestFailedPod is the last pod that failed by itself: one that is being deleted was told
// to end, and is gone soon. It does not depend on the order of the pods.
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

// hasFailed says whether a pod has failed and stays to tell why.
func hasFailed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil
}

// jobCondition is the condition of a Job if it is True.
func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
