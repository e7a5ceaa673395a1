package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// reasonProgressDeadlineExceeded is a reason of condition Progressing that has no constant in the API.
const reasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

// deploymentHealth checks in this order:
//
//	paused? --> deleted? --> generation observed? --> failed? --> all pods available?
func deploymentHealth(d *appsv1.Deployment) Result {
	name := objectName("Deployment", d)
	switch {
	case d.Spec.Paused:
		return suspended(fmt.Sprintf("%s is paused; to resume: kubectl rollout resume -n %s deployment/%s", name, d.Namespace, d.Name))
	case d.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case d.Status.ObservedGeneration < d.Generation:
		return rollingOut(name, d)
	}
	if c := blockingCondition(d); c != nil {
		return conditionHealth(name, c)
	}
	return replicaHealth(name, d)
}

// blockingCondition returns the condition that reports a failed rollout. An exceeded deadline comes before
// pods that cannot be created: users can wait for its reason, and it often follows from the latter.
func blockingCondition(d *appsv1.Deployment) *appsv1.DeploymentCondition {
	var failure *appsv1.DeploymentCondition
	for i := range d.Status.Conditions {
		c := &d.Status.Conditions[i]
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return c
		}
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			failure = c
		}
	}
	return failure
}

// conditionHealth does not repeat the message of the condition: it contains counters and pod names.
func conditionHealth(name string, c *appsv1.DeploymentCondition) Result {
	switch {
	case c.Type == appsv1.DeploymentReplicaFailure:
		return degraded(appsapi.ReasonComponentDegraded, name+" cannot create its pods: see condition ReplicaFailure of the Deployment")
	case c.Reason == reasonProgressDeadlineExceeded:
		return degraded(appsapi.ReasonRolloutTimedOut,
			name+" made no progress within its progress deadline: see the conditions of the Deployment")
	}
	return degraded(appsapi.ReasonComponentDegraded, name+" cannot make progress: see condition Progressing of the Deployment")
}

// replicaHealth ignores terminatingReplicas: terminating pods are not in the other counts, and nothing
// waits for them.
func replicaHealth(name string, d *appsv1.Deployment) Result {
	want, s := desiredReplicas(d), &d.Status
	switch {
	case want == 0 && s.Replicas == 0:
		return healthy(name + " has no pods, as declared")
	case s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want:
		return healthy(name + " runs as declared")
	}
	return rollingOut(name, d)
}

// rollingOut returns the same message during the whole rollout: every change of the message would be
// another status update.
func rollingOut(name string, d *appsv1.Deployment) Result {
	if desiredReplicas(d) == 0 {
		return progressing(name + " waits for its pods to terminate")
	}
	return progressing(name + " waits for its pods to become ready")
}

// desiredReplicas returns spec.replicas; the default is 1.
func desiredReplicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}
