package simulate

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// advanceCluster plays what Kubernetes does until the next pass, if everything goes well. It
// says whether anything happened.
func (sim *simulator) advanceCluster() (changed bool) {
	for id, obj := range sim.observed {
		if obj.GetDeletionTimestamp() != nil {
			delete(sim.observed, id)
			sim.deleted[id] = true
			changed = true
			continue
		}
		if after := asReady(obj); after != nil {
			sim.observed[id] = after
			changed = true
		}
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			changed = sim.createClaims(set) || changed
		}
	}
	for _, c := range sim.components {
		if sim.observed[c.Workload] != nil {
			delete(sim.runningPods, c.Name)
		}
	}
	for _, k := range sim.retained {
		if k.Claim == nil || k.Claim.Status.Phase == corev1.ClaimLost {
			continue
		}
		requested, capacity := k.Claim.Spec.Resources.Requests[corev1.ResourceStorage], k.Claim.Status.Capacity[corev1.ResourceStorage]
		if k.Claim.Status.Phase == corev1.ClaimBound && requested.Cmp(capacity) <= 0 {
			continue
		}
		sim.mutate(k.ID, func(m metav1.Object) {
			claim := m.(*corev1.PersistentVolumeClaim)
			claim.Status.Phase = corev1.ClaimBound
			claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: requested}
			claim.Status.AllocatedResourceStatuses = nil
		})
		changed = true
	}
	return changed
}

// createClaims makes the claims of the pods of a set, as its controller does: they have the
// labels of its selector.
func (sim *simulator) createClaims(set *appsv1.StatefulSet) (created bool) {
	for i := range desiredReplicas(set) {
		for j := range set.Spec.VolumeClaimTemplates {
			template := &set.Spec.VolumeClaimTemplates[j]
			id := desired.ID{Kind: desired.KindClaim, Name: desired.ClaimName(template.Name, set.Name, i)}
			if slices.ContainsFunc(sim.retained, func(k desired.RetainedObject) bool { return k.ID == id }) {
				continue
			}
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: id.Name, Labels: set.Spec.Selector.MatchLabels},
				Spec:       *template.Spec.DeepCopy(),
			}
			sim.retained = desired.SortRetained(append(slices.Clone(sim.retained), desired.RetainedObject{ID: id, Object: claim, Claim: claim}))
			sim.lastWrite[id] = sim.current
			created = true
		}
	}
	return created
}

// asReady returns an object after its controller has done its work, or nil if it has. What has
// failed for good stays so.
func asReady(obj rollout.Object) rollout.Object {
	after := obj.DeepCopyObject().(rollout.Object)
	switch o := after.(type) {
	case *appsv1.Deployment:
		n := desiredReplicas(o)
		o.Status = appsv1.DeploymentStatus{ObservedGeneration: o.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if before := obj.(*appsv1.Deployment).Status; before.ObservedGeneration == o.Generation && before.Replicas == n &&
			before.UpdatedReplicas == n && before.ReadyReplicas == n && before.AvailableReplicas == n {
			return nil
		}
	case *appsv1.StatefulSet:
		n := desiredReplicas(o)
		o.Status = appsv1.StatefulSetStatus{ObservedGeneration: o.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		if before := obj.(*appsv1.StatefulSet).Status; before.ObservedGeneration == o.Generation && before.Replicas == n &&
			before.UpdatedReplicas == n && before.ReadyReplicas == n && before.AvailableReplicas == n {
			return nil
		}
	case *batchv1.Job:
		if rollout.JobFinished(o) || o.Spec.Suspend != nil && *o.Spec.Suspend {
			return nil
		}
		o.Status.Conditions = append(o.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
	case *corev1.Service:
		if o.Spec.Type != corev1.ServiceTypeLoadBalancer || len(o.Status.LoadBalancer.Ingress) > 0 {
			return nil
		}
		o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "to-come"}}
	case *unstructured.Unstructured:
		acceptRoute(o)
		if equality.Semantic.DeepEqual(obj, after) {
			return nil
		}
	default:
		return nil
	}
	return after
}

// acceptRoute lets every Gateway of a route accept it.
func acceptRoute(route *unstructured.Unstructured) {
	refs, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	var parents []any
	for _, ref := range refs {
		var conditions []any
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": kind, "message": "",
				"observedGeneration": route.GetGeneration(), "lastTransitionTime": "2000-01-01T00:00:00Z"})
		}
		parents = append(parents, map[string]any{"parentRef": ref, "controllerName": "rehearsal", "conditions": conditions})
	}
	_ = unstructured.SetNestedSlice(route.Object, parents, "status", "parents") // a map takes it
}

// desiredReplicas is how many pods a workload asks for.
func desiredReplicas(obj rollout.Object) int32 {
	var n *int32
	switch o := obj.(type) {
	case *appsv1.Deployment:
		n = o.Spec.Replicas
	case *appsv1.StatefulSet:
		n = o.Spec.Replicas
	}
	if n == nil {
		return 1
	}
	return *n
}
