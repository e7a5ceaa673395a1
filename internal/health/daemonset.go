package health

import (
	appsv1 "k8s.io/api/apps/v1"
)

// daemonSetHealth asks what is asked of a Deployment. How many pods there should be is what the
// controller counted: as many as there are nodes that want one, which may be none.
func daemonSetHealth(d *appsv1.DaemonSet) Result {
	name, s := objectName("DaemonSet", d), &d.Status
	// Pods of a set that replaces none by itself are of the revision before for as long as
	// somebody wants them to be.
	updated := s.UpdatedNumberScheduled == s.DesiredNumberScheduled || d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	switch {
	case d.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case s.ObservedGeneration < d.Generation:
	case s.DesiredNumberScheduled == 0 && s.CurrentNumberScheduled == 0:
		return healthy(name + " has no pods: no node is to run one")
	case updated && s.NumberAvailable == s.DesiredNumberScheduled:
		return healthy(name + " runs as declared")
	}
	return progressing(name + " waits for its pods to become ready")
}
