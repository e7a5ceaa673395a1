package explain

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newTestDeployment is a Deployment that should have one pod and whose controller has seen its spec.
func newTestDeployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web", CreationTimestamp: ago(podAge)}}
	for _, change := range changes {
		change(d)
	}
	return d
}

// newTestStatefulSet is a StatefulSet that should have three pods, one after the other.
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
			Message:      "Node n1, which runs pod web-1, is short of process ids",
			Fix:          "Free some of it, or move pods away: kubectl describe node n1",
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
			Message:      "A node turned pod " + pod + " away (" + shown + ")",
			Fix:          "Look at what the node said: kubectl describe pod -n shop " + pod,
			AffectedPods: 1, Evidence: []string{"1 of 1 pods", "not here"},
		}}}
	}
	snapshot := func(pods ...*corev1.Pod) Snapshot { return Snapshot{Workload: newTestDeployment(), Pods: pods} }
	recent, odd := failedSince("OutOfcpu", time.Minute), failedSince("<b>odd</b>", time.Minute)
	checkDiagnoses(t, map[string]snapshotCase{
		"with a reason":                      {snapshot(pod("web-1", recent)), rejected("web-1", "OutOfcpu", "OutOfcpu")},
		"with a reason that is not one word": {snapshot(pod("web-1", odd)), rejected("web-1", "<b>odd</b>", "no known reason")},
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
				"keeps drains from taking too many at once.",
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
		unconfirmed = "Pod web-1 was deleted and should be gone, but its node n1 has not confirmed that it ended"
		force       = "See whether the node reports; if it is gone for good: kubectl delete pod -n shop web-1 --force"
		next        = ", and the pod of the same name waits for that"
		held        = "The deletion of Pod web-1 waits for finalizer a.example.com/x, b.example.com/y"
		owner       = "Look at the controller that owns the finalizer; take it off by hand only if that controller is gone for good."
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
		"has time to end": {deployment(young), Diagnosis{RecheckAt: testNow.Add(20 * time.Second)}},
		"for a known disruption": {
			deployment(young, disrupted("EvictionByEvictionAPI")),
			replaced("EvictionByEvictionAPI", "was evicted by a drain"),
		},
		"for an unknown disruption":  {deployment(young, disrupted("MovedByRobot")), replaced("MovedByRobot", "was ended from outside")},
		"its node does not confirm":  {deployment(deletedSince(30 * time.Second)), stuck("spec.nodeName", "n1", unconfirmed, force)},
		"the next of the set waits":  {set, stuck("spec.nodeName", "n1", unconfirmed+next, force)},
		"finalizers hold it for now": {deployment(deletedSince(10*time.Second, "x")), Diagnosis{RecheckAt: testNow.Add(20 * time.Second)}},
		"finalizers hold it": {
			deployment(deletedSince(30*time.Second, "b.example.com/y", "a.example.com/x")),
			stuck("metadata.finalizers", "a.example.com/x, b.example.com/y", held, owner),
		},
	})
}
