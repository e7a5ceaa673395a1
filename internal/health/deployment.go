package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// reasonProgressDeadlineExceeded is what the Deployment controller writes into the condition
// Progressing; the API has no constant for it.
const reasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"

// deploymentHealth asks in this order, because each answer makes the later ones moot:
//
//	held? --> going away? --> status about this spec? --> given up? --> all pods there?
func deploymentHealth(d *appsv1.Deployment) Result {
	name := objectName("Deployment", d)
	switch {
	case d.Spec.Paused:
		return suspended(fmt.Sprintf("%s is paused, until kubectl rollout resume -n %s deployment/%s lets it go on", name, d.Namespace, d.Name))
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

// blockingCondition is the condition that says that the controller cannot go on. A missed deadline
// goes before pods that cannot be created: it has a reason of its own for users to wait
// for, and one often follows from the other.
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

// conditionHealth leaves the text of a condition where it is: it has counters and names of pods
// in it. What it means is explained elsewhere.
func conditionHealth(name string, c *appsv1.DeploymentCondition) Result {
	switch {
	case c.Type == appsv1.DeploymentReplicaFailure:
		return degraded(appsapi.ReasonComponentDegraded, name+" cannot create its pods: see the condition ReplicaFailure of the Deployment")
	case c.Reason == reasonProgressDeadlineExceeded:
		return degraded(appsapi.ReasonRolloutTimedOut, name+" made no progress within its deadline: see the conditions of the Deployment")
	}
	return degraded(appsapi.ReasonComponentDegraded, name+" cannot go on: see the condition Progressing of the Deployment")
}

// replicaHealth does not look at terminatingReplicas: pods on their way out are in none of
// the other counts, and nobody waits for them.
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

// rollingOut says the same from the first moment of a change to the last: each step in
// words of its own would be worth a write to every status.
func rollingOut(name string, d *appsv1.Deployment) Result {
	if desiredReplicas(d) == 0 {
		return progressing(name + " waits for its pods to end")
	}
	return progressing(name + " waits for its pods to become ready")
}

// desiredReplicas is how many pods are asked for; the API server's default is one.
func desiredReplicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}
