package health

import (
	appsv1 "k8s.io/api/apps/v1"
)

// statefulSetHealth checks the same as for a Deployment, except for conditions: a StatefulSet has no
// condition for a failed rollout.
func statefulSetHealth(s *appsv1.StatefulSet) Result {
	name, want := objectName("StatefulSet", s), statefulSetReplicas(s)
	switch {
	case s.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case s.Status.ObservedGeneration < s.Generation:
	case want == 0 && s.Status.Replicas == 0:
		return healthy(name + " has no pods, as declared")
	case s.Status.UpdatedReplicas >= replicasToUpdate(s) && s.Status.Replicas == want && s.Status.AvailableReplicas == want:
		return healthy(name + " runs as declared")
	}
	if want == 0 {
		return progressing(name + " waits for its pods to terminate")
	}
	return progressing(name + " waits for its pods to become ready")
}

// replicasToUpdate returns the number of pods that the StatefulSet controller updates automatically:
// OnDelete and partition keep pods at the previous revision on purpose. Dependents still wait for all
// pods, see [Satisfied].
func replicasToUpdate(s *appsv1.StatefulSet) int32 {
	want, strategy := statefulSetReplicas(s), s.Spec.UpdateStrategy
	switch {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return 0
	case strategy.RollingUpdate != nil && strategy.RollingUpdate.Partition != nil:
		return max(want-*strategy.RollingUpdate.Partition, 0)
	}
	return want
}

func statefulSetReplicas(s *appsv1.StatefulSet) int32 {
	if s.Spec.Replicas == nil {
		return 1
	}
	return *s.Spec.Replicas
}
