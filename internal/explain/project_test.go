package explain

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-dev/holdfast/internal/health"
)

// copyPods deep-copies the pods that are not nil.
func copyPods(all []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range all {
		if p != nil {
			out = append(out, p.DeepCopy())
		}
	}
	return out
}

func TestProjectPodKeepsCauses(t *testing.T) {
	for name, tc := range podCases() {
		t.Run(name, func(t *testing.T) {
			var once, twice []*corev1.Pod
			for _, p := range tc.pods {
				once = append(once, ProjectPod(p))
				twice = append(twice, ProjectPod(ProjectPod(p)))
			}
			want, wantAgain := diagnosePods(tc.pods, testNow)
			got, again := diagnosePods(once, testNow)
			if diff := cmp.Diff(want, got, ignoreAffectedPods); diff != "" {
				t.Errorf("causes (-full +projected):\n%s", diff)
			}
			if !again.Equal(wantAgain) {
				t.Errorf("recheck at %s, want %s", again, wantAgain)
			}
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Errorf("ProjectPod is not idempotent (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestProjectPodKeepsJobCauses(t *testing.T) {
	for name, tc := range jobCases() {
		t.Run(name, func(t *testing.T) {
			var once, twice []*corev1.Pod
			for _, p := range tc.pods {
				once = append(once, ProjectPod(p))
				twice = append(twice, ProjectPod(ProjectPod(p)))
			}
			got, again := diagnoseJob(tc.job, once, testNow)
			if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" || !again.Equal(tc.recheckAt) {
				t.Errorf("recheck at %s, want %s; causes (-full +projected):\n%s", again, tc.recheckAt, diff)
			}
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Errorf("ProjectPod is not idempotent (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestProjectPod(t *testing.T) {
	notReadyPod := pod("web-1", running(podAge), withRequests("cpu", "1"), limits("64Mi"),
		restarted(2, termination(1, "Error", "first\nlast\n", time.Minute)),
		withReadinessProbe(corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/ready?key=secret", Port: intstr.FromInt(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "B"}}}}, PeriodSeconds: 3}),
		func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
			p.Annotations = map[string]string{"a": "b"}
			p.Spec.Volumes = []corev1.Volume{{Name: "v"}, {Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "mine"}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{
					Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}}}
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "regcred"}}
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resourceList("cpu", "2"), Limits: resourceList("cpu", "3")}
		})
	labels := map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "deployment-web"}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "uid-web-1", ResourceVersion: "7", CreationTimestamp: ago(podAge), Labels: labels}
	withMessage := func(p *corev1.Pod) { p.Status.Message = "The node was low on memory" }
	notReady := []corev1.PodCondition{
		{Type: "ContainersReady", Status: "False", LastTransitionTime: ago(unreadyFor)},
		{Type: "Ready", Status: "False", Reason: "ContainersNotReady", LastTransitionTime: ago(unreadyFor)},
	}
	gone := meta
	gone.DeletionTimestamp = new(ago(time.Second))
	cases := map[string]struct{ pod, want *corev1.Pod }{
		"nothing": {nil, nil},
		"not ready": {notReadyPod, &corev1.Pod{
			ObjectMeta: meta,
			Spec: corev1.PodSpec{
				NodeName: "n1",
				Volumes: []corev1.Volume{
					{Name: "data", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "mine"}}},
					{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				},
				Containers: []corev1.Container{{
					Name: "app", Image: "shop/web:2",
					Resources: corev1.ResourceRequirements{Requests: resourceList("cpu", "1"), Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt(80)}}, PeriodSeconds: 3},
				}},
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "regcred"}},
				Resources:        &corev1.ResourceRequirements{Requests: resourceList("cpu", "2")},
			},
			Status: corev1.PodStatus{
				Phase: "Pending",
				Conditions: []corev1.PodCondition{
					{Type: "PodScheduled", Status: "True", LastTransitionTime: ago(podAge)},
					{Type: "ContainersReady", Status: "False", LastTransitionTime: ago(unreadyFor)},
					{Type: "Ready", Status: "False", Reason: "ContainersNotReady", LastTransitionTime: ago(unreadyFor)},
				},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "app", Image: "docker.io/shop/web:2", Started: new(true), RestartCount: 2,
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(podAge)}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
						ExitCode: 1, Reason: "Error", FinishedAt: ago(time.Minute), Message: "last"}},
				}},
			},
		}},
		"ready": {pod("web-1", running(podAge), ready, phase("Running", "")), &corev1.Pod{
			ObjectMeta: meta,
			Status: corev1.PodStatus{Phase: "Running", Conditions: []corev1.PodCondition{
				{Type: "Ready", Status: "True", LastTransitionTime: ago(unreadyFor)}}},
		}},
		"being deleted": {pod("web-1", deleted), &corev1.Pod{
			ObjectMeta: gone,
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: "Pending", Conditions: notReady},
		}},
		"failed": {pod("web-1", exited(3), phase("Failed", "")), &corev1.Pod{
			ObjectMeta: meta,
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app", Image: "shop/web:2"}}},
			Status: corev1.PodStatus{
				Phase: "Failed",
				Conditions: []corev1.PodCondition{
					{Type: "PodScheduled", Status: "True", LastTransitionTime: ago(podAge)},
					{Type: "ContainersReady", Status: "False", LastTransitionTime: ago(unreadyFor)},
					{Type: "Ready", Status: "False", Reason: "ContainersNotReady", LastTransitionTime: ago(unreadyFor)},
				},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "app", Image: "docker.io/shop/web:2", Started: new(false),
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: ago(time.Minute)}},
				}},
			},
		}},
		"evicted": {pod("web-1", exited(137), phase("Failed", "Evicted"), withMessage), &corev1.Pod{
			ObjectMeta: meta,
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: "Failed", Reason: "Evicted", Message: "The node was low on memory", Conditions: notReady},
		}},
		"evicted and being deleted": {pod("web-1", exited(137), phase("Failed", "Evicted"), withMessage, deleted), &corev1.Pod{
			ObjectMeta: gone,
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: "Failed", Reason: "Evicted", Conditions: notReady},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ProjectPod(tc.pod)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

// A projected pod must not keep the full pod in memory, neither by a pointer nor by a substring.
func TestProjectPodSharesNoMemory(t *testing.T) {
	long := strings.Repeat("noise ", 1000)
	p := pod("web-1", terminated(termination(1, "Error", long+"\nlast", time.Minute)), deleted)
	p.DeletionTimestamp = nil
	kept := ProjectPod(p).Status.ContainerStatuses[0].State.Terminated
	if kept.Message != "last" {
		t.Fatalf("message %q, want the last line", kept.Message)
	}
	from := p.Status.ContainerStatuses[0].State.Terminated.Message
	begin, at := uintptr(unsafe.Pointer(unsafe.StringData(from))), uintptr(unsafe.Pointer(unsafe.StringData(kept.Message)))
	if begin <= at && at < begin+uintptr(len(from)) {
		t.Error("the projected message is a substring of the full text")
	}
	started, limited := pod("web-1", running(podAge), limits("64Mi")), pod("web-1", running(podAge), limits("64Mi"))
	small := ProjectPod(started)
	*small.Status.ContainerStatuses[0].Started = false
	small.Status.ContainerStatuses[0].State.Running.StartedAt = ago(0)
	small.Labels["apps.holdfast.dev/workload"] = "x"
	delete(small.Spec.Containers[0].Resources.Limits, "memory")
	if diff := cmp.Diff(limited, started); diff != "" {
		t.Errorf("changing the projection changed the pod (-before +after):\n%s", diff)
	}
}

func TestProjectPodKeepsTerminatingMessage(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0",
		DeletionTimestamp: new(metav1.NewTime(testNow)), DeletionGracePeriodSeconds: new(int64(600))}}
	if got, want := health.TerminatingMessage(ProjectPod(pod)), health.TerminatingMessage(pod); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
