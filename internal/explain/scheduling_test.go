package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// unscheduled is a pod that the scheduler found no node for.
func unscheduled(since time.Duration, reason, message string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.ContainerStatuses = "", nil
		p.Status.Conditions = []corev1.PodCondition{{
			Type: "PodScheduled", Status: "False", Reason: reason, Message: message, LastTransitionTime: ago(since)}}
	}
}

func resourceList(pairs ...string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		all[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return all
}

func withRequests(pairs ...string) podOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resourceList(pairs...) }
}

func scheduleCases() map[string]podCase {
	const (
		tail    = " no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod, 1 Insufficient memory."
		look    = "Look at what the scheduler says about each node: kubectl describe pod -n shop web-1"
		several = "not enough CPU (64 asked for), taints that the pod does not tolerate"
		lower   = "Lower spec.resources.requests of the application, or add a node that has enough."
	)
	cause := func(code Code, value, sentence, fix, schedulerMessage string) []Cause {
		c := Cause{
			Code: code, Object: testPodRef("web-1"), Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: value, Since: testNow.Add(-time.Minute),
			Message: sentence, Fix: fix, Evidence: []string{"1 of 1 pods"},
		}
		if schedulerMessage != "" {
			c.Evidence = append(c.Evidence, schedulerMessage)
		}
		return []Cause{c}
	}
	unschedulablePod := func(message string, changes ...podOption) []*corev1.Pod {
		return []*corev1.Pod{pod("web-1", append(changes, unscheduled(time.Minute, "Unschedulable", message))...)}
	}
	early := []*corev1.Pod{pod("web-1", unscheduled(4*time.Second, "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."))}
	gated := []*corev1.Pod{pod("web-1", unscheduled(time.Minute, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"), func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	})}
	held := []Cause{{
		Code: "SchedulingGated", Object: testPodRef("web-1"), Path: "spec.schedulingGates", Value: "example.com/quota", Since: testNow.Add(-time.Minute),
		Message: "Pod web-1 is held by scheduling gate example.com/quota, which its owner has to remove",
		Fix:     "Look at the controller that owns the gate.", Evidence: []string{"1 of 1 pods"},
	}}
	big := withRequests("cpu", "64", "memory", "1Gi", "example.com/gpu", "4")
	stories := map[string]podCase{
		"not placed for a moment": {early, nil, testNow.Add(time.Second)},
		"held by a gate":          {gated, held, time.Time{}},
		"held by a gate for a moment": {
			pods:      []*corev1.Pod{pod("web-1", unscheduled(5*time.Second, "SchedulingGated", ""))},
			recheckAt: testNow.Add(10 * time.Second),
		},
		"scheduler error for a moment": {
			pods:      []*corev1.Pod{pod("web-1", unscheduled(5*time.Second, "SchedulerError", "timeout"))},
			recheckAt: testNow.Add(10 * time.Second),
		},
		"scheduler error that lasts": {
			pods: []*corev1.Pod{pod("web-1", unscheduled(time.Minute, "SchedulerError", "timeout"))},
			want: cause(SchedulerError, "SchedulerError", "The scheduler met an error with pod web-1",
				"Look at what the scheduler says: kubectl describe pod -n shop web-1", "timeout"),
		},
	}
	for name, tc := range map[string]struct {
		schedulerMessage     string
		change               podOption
		code                 Code
		value, sentence, fix string
	}{
		"not enough CPU": {"0/3 nodes are available: 3 Insufficient cpu." + tail, big,
			"InsufficientCPU", "64", "No node has enough CPU for pod web-1: it asks for 64 CPU", lower},
		"not enough CPU, in a message that ends there": {"0/3 nodes are available: 3 Insufficient cpu.", big,
			"InsufficientCPU", "64", "No node has enough CPU for pod web-1: it asks for 64 CPU", lower},
		"not enough CPU for a pod that asks for none": {"0/3 nodes are available: 3 Insufficient cpu.", withRequests(),
			"InsufficientCPU", "0", "No node has enough CPU for pod web-1", lower},
		"not enough memory": {"0/3 nodes are available: 3 Insufficient memory." + tail, big,
			"InsufficientMemory", "1Gi", "No node has enough memory for pod web-1: it asks for 1Gi memory", lower},
		"no room for another pod": {"0/3 nodes are available: 3 Too many pods." + tail, big,
			"InsufficientPods", "", "No node has room for pod web-1: all hold as many pods as they may", "Add a node, or scale something down."},
		"not enough of something else": {"0/3 nodes are available: 3 Insufficient example.com/gpu." + tail, big,
			"Insufficient", "example.com/gpu", "No node has enough example.com/gpu for pod web-1: it asks for 4 example.com/gpu", lower},
		"not enough of what nobody asked for": {"0/3 nodes are available: 3 Insufficient anything goes." + tail, big,
			"Insufficient", "anything goes", "No node has enough of a resource for pod web-1", lower},
		"taints": {"0/3 nodes are available: 3 node(s) had untolerated taint(s)." + tail, big,
			"Taints", "taints that the pod does not tolerate", "No node takes pod web-1 because of taints that the pod does not tolerate",
			"Take the taints off the nodes, set spec.scheduling.tolerations of the application, or add nodes without them."},
		"affinity between pods": {"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules." + tail, big,
			"NodeSelector", "affinity rules between pods", "No node takes pod web-1 because of affinity rules between pods", "Add nodes, or relax the affinity rules."},
		"volumes": {"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not helpful", big,
			"ClaimPending", "volume claims that have no volume yet", "No node takes pod web-1 because of volume claims that have no volume yet", "Look at the volume claims of the pod."},
		"missing claim": {`0/3 nodes are available: persistentvolumeclaim "data" not found. not helpful`, big,
			"MissingClaim", "data", `Pod web-1 needs PersistentVolumeClaim "data", which does not exist in namespace shop`,
			`Create PersistentVolumeClaim "data" in namespace shop, or correct spec.volumes of the application.`},
		"several at once": {"0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b}, 2 node(s) had untolerated taint {c: }." + tail, big,
			"Unschedulable", several, "No node takes pod web-1, for several reasons: " + several, look},
		"several at once, with other counts": {"0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." + tail, big,
			"Unschedulable", several, "No node takes pod web-1, for several reasons: " + several, look},
		"CPU and memory at once": {"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory." + tail, big,
			"Unschedulable", "not enough CPU (64 asked for), not enough memory (1Gi asked for)",
			"No node takes pod web-1, for several reasons: not enough CPU (64 asked for), not enough memory (1Gi asked for)", look},
		"something new": {"0/3 nodes are available: 3 moon phase.", big, "Unschedulable", "", "No node takes pod web-1", look},
		"something new beside the known": {"0/3 nodes are available: 1 moon phase, 2 node(s) were unschedulable.", big,
			"Unschedulable", "a reason that is not known here, cordoned nodes", "No node takes pod web-1, for several reasons: a reason that is not known here, cordoned nodes", look},
		"only about preemption": {"0/3 nodes are available: preemption: 0/3 nodes are available: 3 Insufficient cpu.", big, "Unschedulable", "", "No node takes pod web-1", look},
		"another message":       {"skip schedule deleting pod", big, "Unschedulable", "", "No node takes pod web-1", look},
		"no message":            {"", big, "Unschedulable", "", "No node takes pod web-1", look},
	} {
		stories["unschedulable: "+name] = podCase{unschedulablePod(tc.schedulerMessage, tc.change), cause(tc.code, tc.value, tc.sentence, tc.fix, tc.schedulerMessage), time.Time{}}
	}
	return stories
}

func TestPodRequest(t *testing.T) {
	c := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: resourceList("cpu", cpu)}}
	}
	sidecar := func(cpu string) corev1.Container {
		s := c(cpu)
		s.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		return s
	}
	cases := map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"nothing":                         {corev1.PodSpec{Containers: []corev1.Container{{}}}, "0"},
		"containers run side by side":     {corev1.PodSpec{Containers: []corev1.Container{c("500m"), c("1500m")}}, "2"},
		"init containers run before":      {corev1.PodSpec{InitContainers: []corev1.Container{c("3"), c("1")}, Containers: []corev1.Container{c("2")}}, "3"},
		"init containers that need less":  {corev1.PodSpec{InitContainers: []corev1.Container{c("1")}, Containers: []corev1.Container{c("2")}}, "2"},
		"sidecars stay":                   {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("1"), c("3")}, Containers: []corev1.Container{c("2")}}, "4"},
		"sidecars stay beside the others": {corev1.PodSpec{InitContainers: []corev1.Container{c("1"), sidecar("1")}, Containers: []corev1.Container{c("2")}}, "3"},
		"the pod as a whole": {corev1.PodSpec{Containers: []corev1.Container{c("2")},
			Resources: &corev1.ResourceRequirements{Requests: resourceList("cpu", "5")}, Overhead: resourceList("cpu", "250m")}, "5250m"},
		"the pod as a whole asks for something else": {corev1.PodSpec{Containers: []corev1.Container{c("2")},
			Resources: &corev1.ResourceRequirements{Requests: resourceList("memory", "5Gi")}}, "2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := podRequest(&corev1.Pod{Spec: tc.spec}, "cpu")
			if got.String() != tc.want {
				t.Errorf("request %s, want %s", got.String(), tc.want)
			}
		})
	}
}
