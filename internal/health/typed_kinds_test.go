package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestPersistentVolumeClaimHealth(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	deletingClaim := claim("Bound")
	deletingClaim.DeletionTimestamp = new(metav1.Now())
	cases := map[string]struct {
		obj  *corev1.PersistentVolumeClaim
		want Result
	}{
		"bound":     {claim("Bound"), Result{"Healthy", "Reconciled", "PersistentVolumeClaim shop/data is bound to its volume"}},
		"lost":      {claim("Lost"), Result{"Degraded", "ComponentDegraded", "PersistentVolumeClaim shop/data has lost its volume"}},
		"pending":   {claim("Pending"), Result{"Progressing", "Progressing", "PersistentVolumeClaim shop/data is not bound to a volume yet"}},
		"no status": {claim(""), Result{"Progressing", "Progressing", "PersistentVolumeClaim shop/data is not bound to a volume yet"}},
		"deleting":  {deletingClaim, Result{"Progressing", "Progressing", "PersistentVolumeClaim shop/data is being deleted"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicaSetHealth(t *testing.T) {
	replicaSet := func(want *int32, replicas, available int32, observed int64) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Generation: 2},
			Spec:       appsv1.ReplicaSetSpec{Replicas: want},
			Status:     appsv1.ReplicaSetStatus{ObservedGeneration: observed, Replicas: replicas, AvailableReplicas: available},
		}
	}
	ready := Result{"Healthy", "Reconciled", "ReplicaSet shop/web-1 runs as declared"}
	waiting := Result{"Progressing", "Progressing", "ReplicaSet shop/web-1 waits for its pods to become ready"}
	deleted := replicaSet(new(int32(3)), 3, 3, 2)
	deleted.DeletionTimestamp = new(metav1.Now())
	cases := map[string]struct {
		obj  *appsv1.ReplicaSet
		want Result
	}{
		"all pods available":        {replicaSet(new(int32(3)), 3, 3, 2), ready},
		"a pod is not available":    {replicaSet(new(int32(3)), 3, 2, 2), waiting},
		"a pod is missing":          {replicaSet(new(int32(3)), 2, 2, 2), waiting},
		"more pods than declared":   {replicaSet(new(int32(2)), 3, 2, 2), waiting},
		"change not observed":       {replicaSet(new(int32(3)), 3, 3, 1), waiting},
		"replicas unset, one pod":   {replicaSet(nil, 1, 1, 2), ready},
		"replicas unset, no pod":    {replicaSet(nil, 0, 0, 2), waiting},
		"deleted":                   {deleted, Result{"Progressing", "Progressing", "ReplicaSet shop/web-1 is being deleted"}},
		"scaled to zero by rollout": {replicaSet(new(int32(0)), 0, 0, 2), ready},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTypedStaticKindsAreHealthy uses objects without TypeMeta, as informers return them.
func TestTypedStaticKindsAreHealthy(t *testing.T) {
	named := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	for kind, obj := range map[string]interface {
		runtime.Object
		metav1.Object
	}{
		"ConfigMap":               &corev1.ConfigMap{ObjectMeta: named},
		"HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named},
		"PodDisruptionBudget":     &policyv1.PodDisruptionBudget{ObjectMeta: named},
		"Ingress":                 &networkingv1.Ingress{ObjectMeta: named},
		"EndpointSlice":           &discoveryv1.EndpointSlice{ObjectMeta: named},
	} {
		t.Run(kind, func(t *testing.T) {
			if diff := cmp.Diff(Result{"Healthy", "Reconciled", kind + " shop/web is set up"}, Evaluate(obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			obj.SetDeletionTimestamp(new(metav1.Now()))
			if diff := cmp.Diff(Result{"Progressing", "Progressing", kind + " shop/web is being deleted"}, Evaluate(obj)); diff != "" {
				t.Errorf("verdict while deleting (-want +got):\n%s", diff)
			}
		})
	}
}
