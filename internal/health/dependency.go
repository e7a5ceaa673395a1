package health

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Satisfied reports whether dependents of an object can proceed. A Deployment or StatefulSet needs a
// majority of its pods ready at the desired revision, a Job must have completed, and a CronJob never
// blocks. Pods without a readiness or startup probe are ready as soon as their program starts, so they must
// also be available. Objects of other kinds and missing objects block their dependents.
func Satisfied(obj runtime.Object) bool {
	if isNil(obj) {
		return false
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return o.DeletionTimestamp == nil && o.Status.ObservedGeneration >= o.Generation &&
			hasMajority(desiredReplicas(o), o.Status.Replicas, o.Status.UpdatedReplicas, settledReplicas(o.Spec.Template, o.Status.ReadyReplicas, o.Status.AvailableReplicas))
	case *appsv1.StatefulSet:
		return o.DeletionTimestamp == nil && o.Status.ObservedGeneration >= o.Generation &&
			hasMajority(statefulSetReplicas(o), o.Status.Replicas, o.Status.UpdatedReplicas, settledReplicas(o.Spec.Template, o.Status.ReadyReplicas, o.Status.AvailableReplicas))
	case *batchv1.Job:
		return o.DeletionTimestamp == nil && trueJobCondition(o, batchv1.JobComplete) != nil
	case *batchv1.CronJob:
		return true
	}
	return false
}

func settledReplicas(template corev1.PodTemplateSpec, ready, available int32) int32 {
	if slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.ReadinessProbe != nil || c.StartupProbe != nil }) {
		return ready
	}
	return available
}

// RolledOut reports whether no pod of an earlier revision is left. Terminating pods of a Deployment do
// not count. The pods of a Job never change, and those of a CronJob belong to its Jobs.
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

// hasMajority subtracts all pods of earlier revisions from the ready ones, because the status does not
// count ready pods by revision.
func hasMajority(want, all, updated, ready int32) bool {
	return want == 0 || ready-(all-updated) >= want/2+1
}
