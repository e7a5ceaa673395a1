package health

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Satisfied says whether those that depend on an object may go on. A Deployment or
// StatefulSet needs a majority of its pods ready at the revision asked for, a Job has to have
// done its work, and nobody waits for a CronJob. What is of another kind, or missing, lets
// nobody go on.
func Satisfied(obj runtime.Object) bool {
	if isNil(obj) {
		return false
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return o.DeletionTimestamp == nil && o.Status.ObservedGeneration >= o.Generation &&
			hasMajority(desiredReplicas(o), o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.ReadyReplicas)
	case *appsv1.StatefulSet:
		return o.DeletionTimestamp == nil && o.Status.ObservedGeneration >= o.Generation &&
			hasMajority(statefulSetReplicas(o), o.Status.Replicas, o.Status.UpdatedReplicas, o.Status.ReadyReplicas)
	case *batchv1.Job:
		return o.DeletionTimestamp == nil && trueJobCondition(o, batchv1.JobComplete) != nil
	case *batchv1.CronJob:
		return true
	}
	return false
}

// RolledOut says whether no pod of an earlier revision is left. Pods on their way out are
// not counted by a Deployment, and nobody waits for them. The pods of a Job never change,
// and those of a CronJob belong to its Jobs.
func RolledOut(obj runtime.Object) bool {
	if isNil(obj) {
		return false
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == o.Status.UpdatedReplicas
	case *appsv1.StatefulSet:
		return o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == o.Status.UpdatedReplicas
	case *batchv1.Job, *batchv1.CronJob:
		return true
	}
	return false
}

// hasMajority takes every old pod for a ready one and subtracts it, because ready pods
// are not counted by revision.
func hasMajority(want, all, updated, ready int32) bool {
	return want == 0 || ready-(all-updated) >= want/2+1
}
