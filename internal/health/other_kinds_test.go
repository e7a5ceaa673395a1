package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func daemonSet(change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", Generation: 2},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, UpdatedNumberScheduled: 3,
			NumberReady: 3, NumberAvailable: 3},
	}
	change(d)
	return d
}

func statefulSet(updated int32, strategy appsv1.StatefulSetUpdateStrategy) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: strategy},
		Status:     appsv1.StatefulSetStatus{Replicas: 3, UpdatedReplicas: updated, AvailableReplicas: 3},
	}
}

func persistentVolume(phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Status: corev1.PersistentVolumeStatus{Phase: phase}}
}

func partialMetadata(apiVersion, kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}}
}

func partitioned(partition int32) appsv1.StatefulSetUpdateStrategy {
	return appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
}

// TestKindsOfOtherApplications covers kinds that Holdfast does not create.
func TestKindsOfOtherApplications(t *testing.T) {
	progressingDaemonSet := Result{"Progressing", "Progressing", "DaemonSet shop/agent waits for its pods to become ready"}
	healthyDaemonSet := Result{"Healthy", "Reconciled", "DaemonSet shop/agent runs as declared"}
	progressingSet := Result{"Progressing", "Progressing", "StatefulSet shop/db waits for its pods to become ready"}
	healthySet := Result{"Healthy", "Reconciled", "StatefulSet shop/db runs as declared"}
	deletingConfigMap := partialMetadata("v1", "ConfigMap")
	deletingConfigMap.DeletionTimestamp = new(metav1.Now())
	deletingVolume := persistentVolume("Bound")
	deletingVolume.DeletionTimestamp = new(metav1.Now())
	cases := map[string]struct {
		obj  runtime.Object
		want Result
	}{
		"DaemonSet pods on all nodes":   {daemonSet(func(*appsv1.DaemonSet) {}), healthyDaemonSet},
		"DaemonSet pod unavailable":     {daemonSet(func(d *appsv1.DaemonSet) { d.Status.NumberAvailable = 2 }), progressingDaemonSet},
		"outdated DaemonSet pod":        {daemonSet(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled = 2 }), progressingDaemonSet},
		"DaemonSet change not observed": {daemonSet(func(d *appsv1.DaemonSet) { d.Generation = 3 }), progressingDaemonSet},
		"outdated pod with OnDelete": {daemonSet(func(d *appsv1.DaemonSet) {
			d.Status.UpdatedNumberScheduled, d.Spec.UpdateStrategy.Type = 2, "OnDelete"
		}), healthyDaemonSet},
		"no matching node": {daemonSet(func(d *appsv1.DaemonSet) { d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 2} }),
			Result{"Healthy", "Reconciled", "DaemonSet shop/agent has no pods: no node matches"}},
		"DaemonSet being deleted": {daemonSet(func(d *appsv1.DaemonSet) { d.DeletionTimestamp = new(metav1.Now()) }),
			Result{"Progressing", "Progressing", "DaemonSet shop/agent is being deleted"}},

		"StatefulSet with OnDelete":   {statefulSet(0, appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}), healthySet},
		"partition, updates complete": {statefulSet(1, partitioned(2)), healthySet},
		"partition, update missing":   {statefulSet(1, partitioned(1)), progressingSet},
		"partition above replicas":    {statefulSet(0, partitioned(5)), healthySet},
		"partition 0":                 {statefulSet(2, partitioned(0)), progressingSet},

		"bound volume":     {persistentVolume("Bound"), Result{"Healthy", "Reconciled", "PersistentVolume pv is provisioned"}},
		"available volume": {persistentVolume("Available"), Result{"Healthy", "Reconciled", "PersistentVolume pv is provisioned"}},
		"released volume": {persistentVolume("Released"),
			Result{"Suspended", "Suspended", "PersistentVolume pv is retained: its claim was deleted"}},
		"failed volume": {persistentVolume("Failed"), Result{"Degraded", "ComponentDegraded", "PersistentVolume pv has failed"}},
		"pending volume": {persistentVolume("Pending"),
			Result{"Progressing", "Progressing", "PersistentVolume pv is not provisioned yet"}},
		"volume being deleted":    {deletingVolume, Result{"Progressing", "Progressing", "PersistentVolume pv is being deleted"}},
		"ConfigMap metadata":      {partialMetadata("v1", "ConfigMap"), Result{"Healthy", "Reconciled", "ConfigMap shop/x is set up"}},
		"ConfigMap being deleted": {deletingConfigMap, Result{"Progressing", "Progressing", "ConfigMap shop/x is being deleted"}},
		"Pod metadata": {partialMetadata("v1", "Pod"),
			Result{"Unknown", "InternalError", "Pod shop/x is of a kind without health rules"}},
		"same kind in another group": {partialMetadata("example.com/v1", "ConfigMap"),
			Result{"Unknown", "InternalError", "ConfigMap shop/x is of a kind without health rules"}},
		"unstructured Role": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": map[string]any{"namespace": "shop", "name": "x"}}}, Result{"Healthy", "Reconciled", "Role shop/x is set up"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Evaluate(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	if Satisfied(statefulSet(0, appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"})) {
		t.Error("a StatefulSet without updated pods satisfies its dependents")
	}
}
