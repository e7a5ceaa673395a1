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

// TestKindsOfOtherApplications is about what is in applications of others than us.
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
		"daemons on all nodes":          {daemonSet(func(*appsv1.DaemonSet) {}), healthyDaemonSet},
		"a node is missing":             {daemonSet(func(d *appsv1.DaemonSet) { d.Status.NumberAvailable = 2 }), progressingDaemonSet},
		"an old daemon":                 {daemonSet(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled = 2 }), progressingDaemonSet},
		"a change nobody looked at":     {daemonSet(func(d *appsv1.DaemonSet) { d.Generation = 3 }), progressingDaemonSet},
		"an old daemon that is to stay": {daemonSet(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled, d.Spec.UpdateStrategy.Type = 2, "OnDelete" }), healthyDaemonSet},
		"no node wants one": {daemonSet(func(d *appsv1.DaemonSet) { d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 2} }),
			Result{"Healthy", "Reconciled", "DaemonSet shop/agent has no pods: no node is to run one"}},
		"daemons on their way out": {daemonSet(func(d *appsv1.DaemonSet) { d.DeletionTimestamp = new(metav1.Now()) }),
			Result{"Progressing", "Progressing", "DaemonSet shop/agent is being deleted"}},

		"a set that replaces no pod":         {statefulSet(0, appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}), healthySet},
		"a set that holds two pods back":     {statefulSet(1, partitioned(2)), healthySet},
		"a set that has yet to replace one":  {statefulSet(1, partitioned(1)), progressingSet},
		"a set that holds back more than is": {statefulSet(0, partitioned(5)), healthySet},
		"a set that holds back none":         {statefulSet(2, partitioned(0)), progressingSet},

		"a volume":                        {persistentVolume("Bound"), Result{"Healthy", "Reconciled", "PersistentVolume pv is there"}},
		"a volume nobody claims":          {persistentVolume("Available"), Result{"Healthy", "Reconciled", "PersistentVolume pv is there"}},
		"a volume that is kept":           {persistentVolume("Released"), Result{"Suspended", "Suspended", "PersistentVolume pv is kept, and its claim is gone"}},
		"a volume that failed":            {persistentVolume("Failed"), Result{"Degraded", "ComponentDegraded", "PersistentVolume pv has failed"}},
		"a volume to be":                  {persistentVolume("Pending"), Result{"Progressing", "Progressing", "PersistentVolume pv waits for its storage"}},
		"a volume on its way out":         {deletingVolume, Result{"Progressing", "Progressing", "PersistentVolume pv is being deleted"}},
		"a ConfigMap without its data":    {partialMetadata("v1", "ConfigMap"), Result{"Healthy", "Reconciled", "ConfigMap shop/x is set up"}},
		"a ConfigMap on its way out":      {deletingConfigMap, Result{"Progressing", "Progressing", "ConfigMap shop/x is being deleted"}},
		"metadata do not tell about pods": {partialMetadata("v1", "Pod"), Result{"Unknown", "InternalError", "Pod shop/x is of a kind whose health cannot be judged"}},
		"the same word in another group":  {partialMetadata("example.com/v1", "ConfigMap"), Result{"Unknown", "InternalError", "ConfigMap shop/x is of a kind whose health cannot be judged"}},
		"a Role of no type": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
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
		t.Error("those who depend on a set go on although none of its pods is of the revision asked for")
	}
}
