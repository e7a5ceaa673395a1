package explain

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newTestDeployment returns an observed Deployment with one desired replica.
func newTestDeployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web", CreationTimestamp: ago(podAge)}}
	for _, change := range changes {
		change(d)
	}
	return d
}

// newTestStatefulSet returns a StatefulSet with three desired replicas and ordered pod management.
func newTestStatefulSet(changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "uid-db", CreationTimestamp: ago(podAge)},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3))},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestNodeWithoutReadyConditionStillReportsPressure(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: "PIDPressure", Status: "True", LastTransitionTime: ago(time.Minute), Message: "too many processes"}}}}
	checkDiagnoses(t, map[string]snapshotCase{"one node": {
		Snapshot{Pods: []*corev1.Pod{pod("web-1", running(podAge))}, Nodes: []*corev1.Node{node}},
		oneCause(Cause{
			Code: NodePressure, Severity: Notice, Object: testPodRef("web-1"),
			Path: "spec.nodeName", Value: "PIDPressure", Since: testNow.Add(-time.Minute),
			Message:      "Node n1, which runs Pod web-1, has PID pressure",
			Fix:          "Free resources on the node, or move pods to other nodes; for details: kubectl describe node n1",
			AffectedPods: 1, Evidence: []string{"1 of 1 pods", "too many processes"},
		}),
	}})
}

func TestPodFailedByNode(t *testing.T) {
	failedSince := func(reason string, since time.Duration) podOption {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = "Failed", reason, "not here"
			p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "False", LastTransitionTime: ago(since)}}
		}
	}
	rejected := func(pod, value, shown string) Diagnosis {
		return Diagnosis{RecheckAt: testNow.Add(9 * time.Minute), Causes: []Cause{{
			Code: NodeAdmissionRejected, Object: testPodRef(pod), Path: "status.reason", Value: value, Since: testNow.Add(-time.Minute),
			Message:      "Pod " + pod + " was rejected by its node (" + shown + ")",
			Fix:          "Check the status and events of the pod: kubectl describe pod -n shop " + pod,
			AffectedPods: 1, Evidence: []string{"1 of 1 pods", "not here"},
		}}}
	}
	snapshot := func(pods ...*corev1.Pod) Snapshot { return Snapshot{Workload: newTestDeployment(), Pods: pods} }
	recent, odd := failedSince("OutOfcpu", time.Minute), failedSince("<b>odd</b>", time.Minute)
	checkDiagnoses(t, map[string]snapshotCase{
		"with a reason":         {snapshot(pod("web-1", recent)), rejected("web-1", "OutOfcpu", "OutOfcpu")},
		"with an unsafe reason": {snapshot(pod("web-1", odd)), rejected("web-1", "<b>odd</b>", "unknown reason")},
		"only the newest pod counts": {
			snapshot(nil, pod("web-1", odd), pod("web-3", recent, created(time.Minute)), pod("web-2", odd)),
			rejected("web-3", "OutOfcpu", "OutOfcpu"),
		},
		"long ago": {snapshot(pod("web-1", failedSince("OutOfcpu", 10*time.Minute))), Diagnosis{}},
	})
}

func TestTerminatingPod(t *testing.T) {
	deletedSince := func(d time.Duration, finalizers ...string) podOption {
		return func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(ago(d)), finalizers }
	}
	disrupted := func(reason string) podOption {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: "DisruptionTarget", Status: "True", Reason: reason, Message: "make room", LastTransitionTime: ago(time.Minute)})
		}
	}
	replaced := func(value, phrase string) Diagnosis {
		return Diagnosis{RecheckAt: testNow.Add(20 * time.Second), Causes: []Cause{{
			Code: Disrupted, Severity: Notice, Object: testPodRef("web-1"),
			Path: `status.conditions[?(@.type=="DisruptionTarget")]`, Value: value, Since: testNow.Add(-time.Minute),
			Message: "Pod web-1 " + phrase + " and is being replaced",
			Fix: "Wait for its replacement; a spec.disruption.budget of the application " +
				"limits how many pods a drain evicts at once.",
			AffectedPods: 1, Evidence: []string{"1 of 1 pods", "make room"},
		}}}
	}
	stuck := func(path, value, message, fix string) Diagnosis {
		return oneCause(Cause{
			Code: StuckTerminating, Object: testPodRef("web-1"), Path: path, Value: value, Since: testNow.Add(-30 * time.Second),
			Message: message, Fix: fix, AffectedPods: 1, Evidence: []string{"1 of 1 pods"},
		})
	}
	const (
		unconfirmed = "Pod web-1 is past its termination grace period, but Node n1 has not confirmed that the pod terminated"
		force       = "Check that the node is ready; if the node is permanently lost, force the deletion: kubectl delete pod -n shop web-1 --force"
		next        = "; the StatefulSet creates a replacement only after this pod is deleted"
		held        = "The deletion of Pod web-1 waits for finalizer a.example.com/x, b.example.com/y"
		owner       = "Check the controller that owns the finalizer; remove the finalizer by hand only if that controller no longer exists."
	)
	deployment := func(changes ...podOption) Snapshot {
		return Snapshot{Workload: newTestDeployment(), Pods: []*corev1.Pod{pod("web-1", changes...)}}
	}
	set := Snapshot{
		Workload: newTestStatefulSet(func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }),
		Pods:     []*corev1.Pod{pod("web-1", deletedSince(30*time.Second))},
	}
	young := deletedSince(10 * time.Second)
	checkDiagnoses(t, map[string]snapshotCase{
		"within its grace period": {deployment(young), Diagnosis{RecheckAt: testNow.Add(20 * time.Second)}},
		"known disruption": {
			deployment(young, disrupted("EvictionByEvictionAPI")),
			replaced("EvictionByEvictionAPI", "was evicted by an API request, such as a node drain,"),
		},
		"unknown disruption":       {deployment(young, disrupted("MovedByRobot")), replaced("MovedByRobot", "was disrupted")},
		"node does not confirm":    {deployment(deletedSince(30 * time.Second)), stuck("spec.nodeName", "n1", unconfirmed, force)},
		"replacement pod waits":    {set, stuck("spec.nodeName", "n1", unconfirmed+next, force)},
		"finalizers, grace period": {deployment(deletedSince(10*time.Second, "x")), Diagnosis{RecheckAt: testNow.Add(20 * time.Second)}},
		"finalizers": {
			deployment(deletedSince(30*time.Second, "b.example.com/y", "a.example.com/x")),
			stuck("metadata.finalizers", "a.example.com/x, b.example.com/y", held, owner),
		},
	})
}
