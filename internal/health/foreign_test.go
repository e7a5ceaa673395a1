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

func daemons(change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", Generation: 2},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, UpdatedNumberScheduled: 3,
			NumberReady: 3, NumberAvailable: 3},
	}
	change(d)
	return d
}

func set(updated int32, strategy appsv1.StatefulSetUpdateStrategy) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: strategy},
		Status:     appsv1.StatefulSetStatus{Replicas: 3, UpdatedReplicas: updated, AvailableReplicas: 3},
	}
}

func volume(phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Status: corev1.PersistentVolumeStatus{Phase: phase}}
}

func partial(apiVersion, kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}}
}

func rolling(partition int32) appsv1.StatefulSetUpdateStrategy {
	return appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
}

// TestForeign is about what is in applications of others than us.
func TestForeign(t *testing.T) {
	waits := Verdict{"Progressing", "Progressing", "DaemonSet shop/agent waits for its pods to become ready"}
	declared := Verdict{"Healthy", "Reconciled", "DaemonSet shop/agent runs as declared"}
	setWaits := Verdict{"Progressing", "Progressing", "StatefulSet shop/db waits for its pods to become ready"}
	setRuns := Verdict{"Healthy", "Reconciled", "StatefulSet shop/db runs as declared"}
	gone := partial("v1", "ConfigMap")
	gone.DeletionTimestamp = new(metav1.Now())
	leaving := volume("Bound")
	leaving.DeletionTimestamp = new(metav1.Now())
	cases := map[string]struct {
		obj  runtime.Object
		want Verdict
	}{
		"daemons on all nodes":          {daemons(func(*appsv1.DaemonSet) {}), declared},
		"a node is missing":             {daemons(func(d *appsv1.DaemonSet) { d.Status.NumberAvailable = 2 }), waits},
		"an old daemon":                 {daemons(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled = 2 }), waits},
		"a change nobody looked at":     {daemons(func(d *appsv1.DaemonSet) { d.Generation = 3 }), waits},
		"an old daemon that is to stay": {daemons(func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled, d.Spec.UpdateStrategy.Type = 2, "OnDelete" }), declared},
		"no node wants one": {daemons(func(d *appsv1.DaemonSet) { d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 2} }),
			Verdict{"Healthy", "Reconciled", "DaemonSet shop/agent has no pods: no node is to run one"}},
		"daemons on their way out": {daemons(func(d *appsv1.DaemonSet) { d.DeletionTimestamp = new(metav1.Now()) }),
			Verdict{"Progressing", "Progressing", "DaemonSet shop/agent is being deleted"}},

		"a set that replaces no pod":         {set(0, appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}), setRuns},
		"a set that holds two pods back":     {set(1, rolling(2)), setRuns},
		"a set that has yet to replace one":  {set(1, rolling(1)), setWaits},
		"a set that holds back more than is": {set(0, rolling(5)), setRuns},
		"a set that holds back none":         {set(2, rolling(0)), setWaits},

		"a volume":                        {volume("Bound"), Verdict{"Healthy", "Reconciled", "PersistentVolume pv is there"}},
		"a volume nobody claims":          {volume("Available"), Verdict{"Healthy", "Reconciled", "PersistentVolume pv is there"}},
		"a volume that is kept":           {volume("Released"), Verdict{"Suspended", "Suspended", "PersistentVolume pv is kept, and its claim is gone"}},
		"a volume that failed":            {volume("Failed"), Verdict{"Degraded", "ComponentDegraded", "PersistentVolume pv has failed"}},
		"a volume to be":                  {volume("Pending"), Verdict{"Progressing", "Progressing", "PersistentVolume pv waits for its storage"}},
		"a volume on its way out":         {leaving, Verdict{"Progressing", "Progressing", "PersistentVolume pv is being deleted"}},
		"a ConfigMap without its data":    {partial("v1", "ConfigMap"), Verdict{"Healthy", "Reconciled", "ConfigMap shop/x is set up"}},
		"a ConfigMap on its way out":      {gone, Verdict{"Progressing", "Progressing", "ConfigMap shop/x is being deleted"}},
		"metadata do not tell about pods": {partial("v1", "Pod"), Verdict{"Unknown", "InternalError", "Pod shop/x is of a kind whose health cannot be judged"}},
		"the same word in another group":  {partial("example.com/v1", "ConfigMap"), Verdict{"Unknown", "InternalError", "ConfigMap shop/x is of a kind whose health cannot be judged"}},
		"a Role of no type": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": map[string]any{"namespace": "shop", "name": "x"}}}, Verdict{"Healthy", "Reconciled", "Role shop/x is set up"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.obj)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	if Satisfied(set(0, appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"})) {
		t.Error("those who depend on a set go on although none of its pods is of the revision asked for")
	}
}
