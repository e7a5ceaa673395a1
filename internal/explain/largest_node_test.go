package explain

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLargestNodeIsEvidence(t *testing.T) {
	node := func(name, cpu string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: resourceList("cpu", cpu, "memory", "8Gi")}}
	}
	for message, want := range map[string]string{
		"0/2 nodes are available: 2 Insufficient cpu.":                "the largest node has 2 cpu",
		"0/2 nodes are available: 2 Insufficient memory.":             "the largest node has 8Gi memory",
		"0/2 nodes are available: 2 node(s) had untolerated taint(s)": "",
	} {
		for _, nodes := range [][]*corev1.Node{{node("a", "1"), node("b", "2"), node("c", "1500m")}, nil} {
			s := Snapshot{Pods: []*corev1.Pod{pod("web-1", unscheduled(time.Minute, "Unschedulable", message), withRequests("cpu", "64", "memory", "1Ti"))}, Nodes: nodes}
			causes := Explain(s, testNow).Causes
			if len(causes) != 1 {
				t.Fatalf("%s: got %d causes", message, len(causes))
			}
			expected := nodes != nil && want != ""
			if slices.Contains(causes[0].Evidence, want) != expected {
				t.Errorf("%s with %d nodes: evidence %q, want %q: %t", message, len(nodes), causes[0].Evidence, want, expected)
			}
		}
	}
}

// TestMissingPullSecretIsEvidence checks that a pull Secret that does not exist is named: the node pulls without it.
func TestMissingPullSecretIsEvidence(t *testing.T) {
	const message = "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed."
	denied := pod("web-1", waiting("ErrImagePull", "pull access denied"))
	s := Snapshot{Pods: []*corev1.Pod{denied}, Events: []Event{{Object: podRef(denied), Reason: reasonPullSecretMissing, Message: message, Count: 1, LastSeen: testNow}}}
	causes := Explain(s, testNow).Causes
	if len(causes) != 1 || !slices.Contains(causes[0].Evidence, "event FailedToRetrieveImagePullSecret: "+message) {
		t.Errorf("got %+v", causes)
	}
}
