package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// simulatedPods are pods that behave on the node like the simulated ones.
var simulatedPods = map[string]struct {
	behavior podsim.Behavior
	image    string
	command  []string
	change   func(*corev1.PodSpec)
	until    func(*corev1.PodStatus) bool
}{
	"ready": {behavior: podsim.Ready(), image: "localhost/web:1", change: addReadinessProbe, until: podReady},
	"unready": {
		behavior: podsim.NeverReady(), image: "localhost/web:1", change: func(s *corev1.PodSpec) {
			addReadinessProbe(s)
			s.Containers[0].Args = []string{"--healthy=false"}
		},
		until: func(s *corev1.PodStatus) bool { return s.Phase == corev1.PodRunning },
	},
	"crash": {
		behavior: podsim.CrashLoop(3).WithRestarts(1, 100*time.Millisecond), image: "busybox:1", command: []string{"sh", "-c", "exit 3"},
		until: func(s *corev1.PodStatus) bool { return containerWaiting(s, "CrashLoopBackOff") },
	},
	"oom": {
		behavior: podsim.OOMKilled().WithRestarts(1, 100*time.Millisecond), image: "busybox:1", command: []string{"tail", "/dev/zero"},
		change: func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}
		},
		until: func(s *corev1.PodStatus) bool { return containerWaiting(s, "CrashLoopBackOff") },
	},
	"config": {
		behavior: podsim.ConfigMissing("missing"), image: "busybox:1", command: []string{"sleep", "60"},
		change: func(s *corev1.PodSpec) {
			s.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "missing"},
			}}}
		},
		until: func(s *corev1.PodStatus) bool { return containerWaiting(s, "CreateContainerConfigError") },
	},
	"succeeded": {behavior: podsim.Succeeded(), image: "busybox:1", command: []string{"true"}, change: neverRestart, until: podFinished},
	"failed":    {behavior: podsim.Failed(4), image: "busybox:1", command: []string{"sh", "-c", "exit 4"}, change: neverRestart, until: podFinished},
}

// testSimulator compares the status from the kubelet with that of the simulator for the same pod.
func testSimulator(t *testing.T, c *testCluster) {
	config, err := clientcmd.BuildConfigFromFlags("", c.dir+"/kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	sim, err := podsim.Start(t.Context(), plane.Config, podsim.WithBehavior(func(p *corev1.Pod) podsim.Behavior {
		return simulatedPods[p.Name].behavior
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Stop()
	node, simulated := kubernetes.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(plane.Config)
	for name := range simulatedPods {
		for client, namespace := range map[kubernetes.Interface]string{node: c.namespace, simulated: "default"} {
			if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), newSimulatedPod(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range simulatedPods {
		want, got := settledStatus(t, node, c.namespace, name), settledStatus(t, simulated, "default", name)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status of pod %s (-kubelet +simulator):\n%s", name, diff)
		}
	}
}

func newSimulatedPod(name string) *corev1.Pod {
	p := simulatedPods[name]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []corev1.Container{{Name: "app", Image: p.image, Command: p.command}},
		},
	}
	if p.change != nil {
		p.change(&pod.Spec)
	}
	return pod
}

func addReadinessProbe(s *corev1.PodSpec) {
	s.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1}
	s.Containers[0].ReadinessProbe.HTTPGet = &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}
}

func neverRestart(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyNever }

func podReady(s *corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podFinished(s *corev1.PodStatus) bool {
	return s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
}

func containerWaiting(s *corev1.PodStatus, reason string) bool {
	return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].State.Waiting.Reason == reason
}

// settledStatus waits for the expected status and returns it without the values that differ between pods.
func settledStatus(t *testing.T, client kubernetes.Interface, namespace, name string) map[string]any {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, time.Minute, func() (err error) {
		pod, err = client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err == nil && !simulatedPods[name].until(&pod.Status) {
			return fmt.Errorf("pod %s does not have the status yet: %+v", name, pod.Status)
		}
		return err
	})
	raw, err := json.Marshal(pod.Status)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(string(pod.UID), "UID", "_"+namespace+"(", "_NAMESPACE(").Replace(string(raw))
	text = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`).ReplaceAllString(text, "kube-api-access")
	// The current number of restarts depends on the time.
	text = regexp.MustCompile(`back-off \d+s|"restartCount":[1-9]`).ReplaceAllStringFunc(text, func(s string) string {
		return strings.TrimRight(s, "0123456789s") + "1"
	})
	var status map[string]any
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	mask(status)
	// Not simulated: pod-level resources and the user of a container.
	delete(status, "resources")
	delete(status, "allocatedResources")
	for _, c := range status["containerStatuses"].([]any) {
		delete(c.(map[string]any), "user")
	}
	return status
}

// mask replaces values that are unique to a pod.
func mask(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch key {
			case "startTime", "startedAt", "finishedAt", "lastTransitionTime", "containerID", "imageID",
				"ip", "podIP", "hostIP":
				v[key] = "..."
			default:
				mask(value)
			}
		}
	case []any:
		for _, item := range v {
			mask(item)
		}
	}
}
