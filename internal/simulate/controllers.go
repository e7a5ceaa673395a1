package simulate

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// advance simulates the controllers of Kubernetes in a healthy cluster. It reports whether an object
// changed.
func (c *cluster) advance(components []desired.Component) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, obj := range maps.Clone(c.objects) {
		if obj.GetDeletionTimestamp() != nil && id.Kind != kindPod && metav1.GetControllerOfNoCopy(obj) != nil {
			delete(c.objects, id)
			c.deleted[id] = true
			changed = true
			continue
		}
		after := asReady(obj)
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			after = asBound(claim)
		}
		if after != nil {
			c.objects[id] = after.(client.Object)
			changed = true
		}
	}
	for _, component := range components {
		if set, ok := c.objects[component.Workload].(*appsv1.StatefulSet); ok {
			changed = c.createClaims(set) || changed
		}
	}
	return changed
}

// asBound returns the claim bound to a volume of the requested size, or nil if it already is.
func asBound(claim *corev1.PersistentVolumeClaim) rollout.Object {
	requested, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimLost || claim.Status.Phase == corev1.ClaimBound && requested.Cmp(capacity) <= 0 {
		return nil
	}
	after := claim.DeepCopy()
	after.Status.Phase = corev1.ClaimBound
	after.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: requested}
	after.Status.AllocatedResourceStatuses = nil
	return after
}

// createClaims creates the claims of the pods of a StatefulSet as its controller does, with the
// labels of its selector.
func (c *cluster) createClaims(set *appsv1.StatefulSet) (created bool) {
	for i := range desiredReplicas(set) {
		for j := range set.Spec.VolumeClaimTemplates {
			template := &set.Spec.VolumeClaimTemplates[j]
			id := desired.ID{Kind: desired.KindClaim, Name: desired.ClaimName(template.Name, set.Name, i)}
			if c.objects[id] != nil {
				continue
			}
			c.objects[id] = &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: id.Name, Labels: set.Spec.Selector.MatchLabels},
				Spec:       *template.Spec.DeepCopy(),
			}
			c.lastWrite[id] = c.current
			created = true
		}
	}
	return created
}

// asReady returns the object with the status of a successful rollout, or nil if it already has it.
// Failed jobs stay failed.
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

// acceptRoute sets the conditions of a route that all its Gateways accept.
func acceptRoute(route *unstructured.Unstructured) {
	refs, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	var parents []any
	for _, ref := range refs {
		var conditions []any
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": kind, "message": "",
				"observedGeneration": route.GetGeneration(), "lastTransitionTime": "2000-01-01T00:00:00Z"})
		}
		parents = append(parents, map[string]any{"parentRef": ref, "controllerName": "simulated", "conditions": conditions})
	}
	_ = unstructured.SetNestedSlice(route.Object, parents, "status", "parents") // cannot fail: the types are JSON types
}

// desiredReplicas returns the desired replicas of a workload.
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
