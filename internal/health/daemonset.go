package health

import (
	appsv1 "k8s.io/api/apps/v1"
)

// daemonSetHealth checks the same as for a Deployment. The desired number of pods comes from the status:
// one for each matching node, which can be 0.
func daemonSetHealth(d *appsv1.DaemonSet) Result {
	name, s := objectName("DaemonSet", d), &d.Status
	// With OnDelete, pods of the previous revision stay on purpose.
	updated := s.UpdatedNumberScheduled == s.DesiredNumberScheduled || d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	switch {
	case d.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case s.ObservedGeneration < d.Generation:
	case s.DesiredNumberScheduled == 0 && s.CurrentNumberScheduled == 0:
		return healthy(name + " has no pods: no node matches")
	case updated && s.NumberAvailable == s.DesiredNumberScheduled:
		return healthy(name + " runs as declared")
	}
	return progressing(name + " waits for its pods to become ready")
}
