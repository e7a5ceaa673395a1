package podsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// baseTime is when the pods of these tests are bound.
var baseTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at returns baseTime plus d.
func at(d time.Duration) metav1.Time { return metav1.NewTime(baseTime.Add(d)) }

// boundPod returns a newly bound pod with one container "app".
func boundPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1", Generation: 1},
		Spec: corev1.PodSpec{
			NodeName: "sim-node", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "app", Image: "nginx:1.27"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(0), ObservedGeneration: 1,
			}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func withRestartPolicy(p corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = p }
}

func withContainer(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "redis:7"})
	}
}

func withInitContainer(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "busybox"})
	}
}

func withSidecar(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
			Name: name, Image: "envoy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)})
	}
}

// step is a behavior and the time after baseTime at which it is checked.
type step struct {
	Behavior
	offset time.Duration
}

// runSteps runs behaviors one after the other as the simulator does, and returns how long the last status lasts. The pod
// then has this status.
func runSteps(pod *corev1.Pod, steps ...step) time.Duration {
	var a *activeBehavior
	var next time.Duration
	for _, sc := range steps {
		if a == nil || a.Behavior != sc.Behavior {
			a = &activeBehavior{Behavior: sc.Behavior, since: baseTime.Add(sc.offset), podIP: "10.128.0.1", hostIP: "192.0.2.10",
				previous: slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)}
		}
		pod.Status, next = runningPodStatus(pod, a, baseTime.Add(sc.offset))
	}
	return next
}

// summarize returns a short form of a status: the phase, the conditions that are not True, and each container.
func summarize(s corev1.PodStatus) string {
	lines := []string{string(s.Phase)}
	for _, c := range s.Conditions {
		if c.Status != corev1.ConditionTrue || c.Reason != "" {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message)))
		}
	}
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		lines = append(lines, summarizeContainer(c))
	}
	return strings.Join(lines, "\n")
}

func summarizeContainer(c corev1.ContainerStatus) string {
	line := c.Name
	switch {
	case c.State.Running != nil:
		line += " running"
	case c.State.Terminated != nil:
		line += fmt.Sprintf(" ended %s %d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	case c.State.Waiting != nil:
		line += " waits " + c.State.Waiting.Reason
	}
	if c.Ready {
		line += " ready"
	}
	if c.RestartCount > 0 {
		line += fmt.Sprintf(" restarts %d", c.RestartCount)
	}
	if d := c.LastTerminationState.Terminated; d != nil {
		line += fmt.Sprintf(" last %s %d", d.Reason, d.ExitCode)
	}
	return line
}

// The complete status, as kubelet 1.36 with containerd writes it.
func TestFullStatus(t *testing.T) {
	pod := boundPod(func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "token", MountPath: "/token", ReadOnly: true}}
	})
	runSteps(pod, step{Ready(), 1500 * time.Millisecond})
	condition := func(t corev1.PodConditionType, since time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: at(since), ObservedGeneration: 1}
	}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	want := corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			condition("PodReadyToStartContainers", time.Second),
			condition("Initialized", time.Second),
			condition("Ready", time.Second),
			condition("ContainersReady", time.Second),
			condition("PodScheduled", 0),
		},
		HostIP: "192.0.2.10", HostIPs: []corev1.HostIP{{IP: "192.0.2.10"}},
		PodIP: "10.128.0.1", PodIPs: []corev1.PodIP{{IP: "10.128.0.1"}},
		StartTime: new(at(time.Second)),
		QOSClass:  corev1.PodQOSBestEffort,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, Started: new(true),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(time.Second)}},
			Image:       "docker.io/library/nginx:1.27",
			ImageID:     "docker.io/library/nginx@sha256:" + hash("docker.io/library/nginx:1.27"),
			ContainerID: "containerd://" + hash("u1/app/0"),
			Resources:   &corev1.ResourceRequirements{Requests: requests}, AllocatedResources: requests,
			VolumeMounts: []corev1.VolumeMountStatus{
				{Name: "data", MountPath: "/data"},
				{Name: "token", MountPath: "/token", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyDisabled)},
			},
		}},
	}
	if diff := cmp.Diff(want, pod.Status); diff != "" {
		t.Error(diff)
	}
}
