package health

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Satisfied says whether those that depend on an object may go on. A Deployment needs a
// majority of its pods ready at the revision asked for, a Job has to have done its work,
// and nobody waits for a CronJob. What is of another kind, or missing, lets nobody go on.
func Satisfied(obj runtime.Object) bool {
	if isNil(obj) {
		return false
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return hasMajority(o)
	case *batchv1.Job:
		return o.DeletionTimestamp == nil && jobCondition(o, batchv1.JobComplete) != nil
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
	case *batchv1.Job, *batchv1.CronJob:
		return true
	}
	return false
}

// hasMajority takes every old pod for a ready one and subtracts it, because ready pods
// are not counted by revision.
func hasMajority(d *appsv1.Deployment) bool {
	if d.DeletionTimestamp != nil || d.Status.ObservedGeneration < d.Generation {
		return false
	}
	want := replicas(d)
	if want == 0 {
		return true
	}
	old := d.Status.Replicas - d.Status.UpdatedReplicas
	return d.Status.ReadyReplicas-old >= want/2+1
}
