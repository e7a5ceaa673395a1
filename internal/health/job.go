package health

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// jobHealth asks in this order, because each answer makes the later ones moot:
//
//	going away? --> done? --> given up? --> held? --> on its way
//
// A Job that has only the condition FailureTarget still waits for its last pods to end,
// so it is on its way: whoever deleted it now would take their logs away.
func jobHealth(j *batchv1.Job) Result {
	name := objectName("Job", j)
	if j.DeletionTimestamp != nil {
		return progressing(name + " is being deleted")
	}
	if trueJobCondition(j, batchv1.JobComplete) != nil {
		return healthy(name + " has done its work")
	}
	if c := trueJobCondition(j, batchv1.JobFailed); c != nil {
		return degraded(appsapi.ReasonComponentDegraded,
			fmt.Sprintf("%s failed: %s; correct the job, or delete the Job to run it again", name, failureMessage(c.Reason)))
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return suspended(suspendedMessage(name, "job", j.Namespace, j.Name))
	}
	return progressing(name + " waits for its pods to end")
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

// failureMessage leaves the text of the condition where it is: it may name pods.
func failureMessage(reason string) string {
	switch reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		return "every try failed"
	case batchv1.JobReasonDeadlineExceeded:
		return "it took longer than activeDeadlineSeconds allows"
	case batchv1.JobReasonPodFailurePolicy:
		return "its pods failed in a way that is not tried again"
	}
	return "see its conditions"
}

// suspendedMessage says how to let go on what is suspended; kubectl has no verb of its own for it.
func suspendedMessage(name, resource, namespace, object string) string {
	return fmt.Sprintf(`%s is suspended, until kubectl patch -n %s %s/%s -p '{"spec":{"suspend":false}}' lets it go on`,
		name, namespace, resource, object)
}

// trueJobCondition is the condition of a Job if it is True.
func trueJobCondition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
