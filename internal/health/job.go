package health

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// jobHealth checks in this order:
//
//	deleted? --> completed? --> failed? --> suspended? --> progressing
//
// A Job with only the condition FailureTarget still waits for its last pods to terminate, so it is
// progressing: deleting it now would delete their logs.
func jobHealth(j *batchv1.Job) Result {
	name := objectName("Job", j)
	if j.DeletionTimestamp != nil {
		return progressing(name + " is being deleted")
	}
	if trueJobCondition(j, batchv1.JobComplete) != nil {
		return healthy(name + " has completed")
	}
	if c := trueJobCondition(j, batchv1.JobFailed); c != nil {
		return degraded(appsapi.ReasonComponentDegraded,
			fmt.Sprintf("%s failed: %s; correct the job, or delete the Job to run it again", name, failureMessage(c.Reason)))
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return suspended(suspendedMessage(name, "job", j.Namespace, j.Name))
	}
	if started := j.CreationTimestamp; !started.IsZero() { // not the duration, which would change all the time
		return progressing(name + " has been running since " + started.UTC().Format(time.RFC3339))
	}
	return progressing(name + " waits for its pods to complete")
}

func cronJobHealth(j *batchv1.CronJob) Result {
	name := objectName("CronJob", j)
	switch {
	case j.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case j.Spec.Suspend != nil && *j.Spec.Suspend:
		return suspended(suspendedMessage(name, "cronjob", j.Namespace, j.Name))
	}
	return healthy(name + " runs on its schedule")
}

// failureMessage does not repeat the message of the condition: it can contain pod names.
func failureMessage(reason string) string {
	switch reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		return "all retries failed (backoffLimit reached)"
	case batchv1.JobReasonDeadlineExceeded:
		return "it exceeded activeDeadlineSeconds"
	case batchv1.JobReasonPodFailurePolicy:
		return "a pod failed and podFailurePolicy does not allow a retry"
	}
	return "see its conditions"
}

// suspendedMessage contains the command to resume; kubectl has no verb for it.
func suspendedMessage(name, resource, namespace, object string) string {
	return fmt.Sprintf(`%s is suspended; to resume: kubectl patch -n %s %s/%s -p '{"spec":{"suspend":false}}'`,
		name, namespace, resource, object)
}

// trueJobCondition returns the condition of a Job if it is True.
func trueJobCondition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
