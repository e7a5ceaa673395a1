package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// unscheduled makes a pod unscheduled.
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
		look    = "Check the scheduler message about each node: kubectl describe pod -n shop web-1"
		several = "not enough CPU (64 requested), taints that the pod does not tolerate"
		lower   = "Lower spec.resources.requests of the application, or add a node with enough capacity."
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
		Message: "Pod web-1 is not scheduled until scheduling gate example.com/quota is removed",
		Fix:     "Check the controller that removes this scheduling gate.", Evidence: []string{"1 of 1 pods"},
	}}
	big := withRequests("cpu", "64", "memory", "1Gi", "example.com/gpu", "4")
	stories := map[string]podCase{
		"within the grace period": {early, nil, testNow.Add(time.Second)},
		"scheduling gate":         {gated, held, time.Time{}},
		"scheduling gate within the grace period": {
			pods:      []*corev1.Pod{pod("web-1", unscheduled(5*time.Second, "SchedulingGated", ""))},
			recheckAt: testNow.Add(10 * time.Second),
		},
		"scheduler error within the grace period": {
			pods:      []*corev1.Pod{pod("web-1", unscheduled(5*time.Second, "SchedulerError", "timeout"))},
			recheckAt: testNow.Add(10 * time.Second),
		},
		"scheduler error after the grace period": {
			pods: []*corev1.Pod{pod("web-1", unscheduled(time.Minute, "SchedulerError", "timeout"))},
			want: cause(SchedulerError, "SchedulerError", "The scheduler reported an error for Pod web-1",
				"Check the error of the scheduler: kubectl describe pod -n shop web-1", "timeout"),
		},
	}
	for name, tc := range map[string]struct {
		schedulerMessage     string
		change               podOption
		code                 Code
		value, sentence, fix string
	}{
		"not enough CPU": {"0/3 nodes are available: 3 Insufficient cpu." + tail, big,
			"InsufficientCPU", "64", "No node has enough CPU for Pod web-1: it requests 64 CPU", lower},
		"not enough CPU, without preemption in the message": {"0/3 nodes are available: 3 Insufficient cpu.", big,
			"InsufficientCPU", "64", "No node has enough CPU for Pod web-1: it requests 64 CPU", lower},
		"not enough CPU for a pod without requests": {"0/3 nodes are available: 3 Insufficient cpu.", withRequests(),
			"InsufficientCPU", "0", "No node has enough CPU for Pod web-1", lower},
		"not enough memory": {"0/3 nodes are available: 3 Insufficient memory." + tail, big,
			"InsufficientMemory", "1Gi", "No node has enough memory for Pod web-1: it requests 1Gi memory", lower},
		"too many pods": {"0/3 nodes are available: 3 Too many pods." + tail, big,
			"InsufficientPods", "", "Pod web-1 cannot be scheduled: all nodes reached their pod limit",
			"Add a node, or scale down other workloads."},
		"not enough of an extended resource": {"0/3 nodes are available: 3 Insufficient example.com/gpu." + tail, big,
			"Insufficient", "example.com/gpu", "No node has enough example.com/gpu for Pod web-1: it requests 4 example.com/gpu", lower},
		"not enough of a resource without a request": {"0/3 nodes are available: 3 Insufficient anything goes." + tail, big,
			"Insufficient", "anything goes", "No node has enough of a resource for Pod web-1", lower},
		"taints": {"0/3 nodes are available: 3 node(s) had untolerated taint(s)." + tail, big,
			"Taints", "taints that the pod does not tolerate", "Pod web-1 cannot be scheduled because of taints that the pod does not tolerate",
			"Remove the taints from the nodes, set spec.scheduling.tolerations of the application, or add nodes without these taints."},
		"pod anti-affinity": {"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules." + tail, big,
			"NodeSelector", "pod affinity or anti-affinity rules", "Pod web-1 cannot be scheduled because of pod affinity or anti-affinity rules",
			"Add nodes, or relax the affinity rules."},
		"unbound claims": {"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not helpful", big,
			"ClaimPending", "unbound PersistentVolumeClaims", "Pod web-1 cannot be scheduled because of unbound PersistentVolumeClaims",
			"Check the PersistentVolumeClaims of the pod."},
		"missing claim": {`0/3 nodes are available: persistentvolumeclaim "data" not found. not helpful`, big,
			"MissingClaim", "data", `Pod web-1 needs PersistentVolumeClaim "data", which does not exist in namespace shop`,
			`Create PersistentVolumeClaim "data" in namespace shop, or correct spec.volumes of the application.`},
		"several reasons": {"0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b}, 2 node(s) had untolerated " +
			"taint {c: }." + tail, big,
			"Unschedulable", several, "Pod web-1 cannot be scheduled for several reasons: " + several, look},
		"several reasons with other counts": {"0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." + tail, big,
			"Unschedulable", several, "Pod web-1 cannot be scheduled for several reasons: " + several, look},
		"CPU and memory": {"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory." + tail, big,
			"Unschedulable", "not enough CPU (64 requested), not enough memory (1Gi requested)",
			"Pod web-1 cannot be scheduled for several reasons: not enough CPU (64 requested), not enough memory (1Gi requested)", look},
		"unknown reason": {"0/3 nodes are available: 3 moon phase.", big, "Unschedulable", "", "Pod web-1 cannot be scheduled", look},
		"unknown and known reason": {"0/3 nodes are available: 1 moon phase, 2 node(s) were unschedulable.", big,
			"Unschedulable", "an unknown reason, cordoned nodes",
			"Pod web-1 cannot be scheduled for several reasons: an unknown reason, cordoned nodes", look},
		"only about preemption": {"0/3 nodes are available: preemption: 0/3 nodes are available: 3 Insufficient cpu.", big, "Unschedulable", "",
			"Pod web-1 cannot be scheduled", look},
		"another message": {"skip schedule deleting pod", big, "Unschedulable", "", "Pod web-1 cannot be scheduled", look},
		"no message":      {"", big, "Unschedulable", "", "Pod web-1 cannot be scheduled", look},
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
		"no requests":       {corev1.PodSpec{Containers: []corev1.Container{{}}}, "0"},
		"containers add up": {corev1.PodSpec{Containers: []corev1.Container{c("500m"), c("1500m")}}, "2"},
		"larger init container": {corev1.PodSpec{InitContainers: []corev1.Container{c("3"), c("1")},
			Containers: []corev1.Container{c("2")}}, "3"},
		"smaller init container": {corev1.PodSpec{InitContainers: []corev1.Container{c("1")}, Containers: []corev1.Container{c("2")}},
			"2"},
		"sidecar before init container": {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("1"), c("3")},
			Containers: []corev1.Container{c("2")}}, "4"},
		"sidecar after init container": {corev1.PodSpec{InitContainers: []corev1.Container{c("1"), sidecar("1")},
			Containers: []corev1.Container{c("2")}}, "3"},
		"pod-level requests": {corev1.PodSpec{Containers: []corev1.Container{c("2")},
			Resources: &corev1.ResourceRequirements{Requests: resourceList("cpu", "5")}, Overhead: resourceList("cpu", "250m")}, "5250m"},
		"pod-level requests of another resource": {corev1.PodSpec{Containers: []corev1.Container{c("2")},
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
