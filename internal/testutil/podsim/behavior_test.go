package podsim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func behaviorMeta(behavior string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Annotations: map[string]string{"podsim.holdfast.dev/behavior": behavior}}
}

func TestChooseBehavior(t *testing.T) {
	annotated := func(pod *corev1.Pod) { pod.ObjectMeta = behaviorMeta("OOMKilled") }
	always := func(b Behavior) func(*corev1.Pod) Behavior { return func(*corev1.Pod) Behavior { return b } }
	tests := map[string]struct {
		pod        *corev1.Pod
		behaviorOf func(*corev1.Pod) Behavior
		want       Behavior
	}{
		"default":                           {boundPod(), nil, Ready()},
		"default of a job":                  {boundPod(withRestartPolicy("Never")), nil, Succeeded()},
		"played":                            {boundPod(), always(Hang()), Hang()},
		"default from the function":         {boundPod(withRestartPolicy("OnFailure")), always(Behavior{}), Succeeded()},
		"annotation":                        {boundPod(annotated), nil, OOMKilled()},
		"annotation overrides the function": {boundPod(annotated), always(Hang()), OOMKilled()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chooseBehavior(tc.pod, tc.behaviorOf); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestByName(t *testing.T) {
	for _, name := range []string{
		"Ready", "Slow", "NeverReady", "Hang", "ImageNotFound", "ImageDenied", "RegistryUnreachable", "ConfigMissing",
		"CrashLoop", "OOMKilled", "Succeeded", "Failed", "Unschedulable",
	} {
		if b, err := ByName(name); err != nil || b.String() != name {
			t.Errorf("ByName(%q) = %s, %v", name, b, err)
		}
	}
	if _, err := ByName("ready"); err == nil {
		t.Error("ByName accepts another case, want an error")
	}
}

func TestBehaviorModifiers(t *testing.T) {
	got := CrashLoop(2).InContainer("web").After(time.Second).WithMessage("oh").WithRestarts(5, time.Minute)
	want := Behavior{name: "CrashLoop", kind: kindExits, exitCode: 2, container: "web", after: time.Second, message: "oh", restarts: 5, backoff: time.Minute}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseImage(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	tests := map[string]struct {
		image, want, wantID string
	}{
		"short":     {"nginx", "docker.io/library/nginx:latest", "docker.io/library/nginx@sha256:" + hash("docker.io/library/nginx:latest")},
		"tag":       {"nginx:1.27", "docker.io/library/nginx:1.27", "docker.io/library/nginx@sha256:" + hash("docker.io/library/nginx:1.27")},
		"user":      {"bitnami/redis:7", "docker.io/bitnami/redis:7", "docker.io/bitnami/redis@sha256:" + hash("docker.io/bitnami/redis:7")},
		"host":      {"example.com/a/b", "example.com/a/b:latest", "example.com/a/b@sha256:" + hash("example.com/a/b:latest")},
		"port":      {"localhost:5000/a:2", "localhost:5000/a:2", "localhost:5000/a@sha256:" + hash("localhost:5000/a:2")},
		"localhost": {"localhost/a", "localhost/a:latest", "localhost/a@sha256:" + hash("localhost/a:latest")},
		"digest":    {"example.com/a@" + digest, "example.com/a@" + digest, "example.com/a@" + digest},
		"both":      {"example.com/a:1@" + digest, "example.com/a@" + digest, "example.com/a@" + digest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := parseImage(tc.image)
			if i.String() != tc.want || i.id() != tc.wantID {
				t.Errorf("got %s and %s, want %s and %s", i, i.id(), tc.want, tc.wantID)
			}
		})
	}
}

func TestIPAllocator(t *testing.T) {
	var a ipAllocator
	if got := a.allocate(); got != "10.128.0.1" {
		t.Errorf("got first address %s", got)
	}
	pods := []*corev1.Pod{{}, {}, {}}
	pods[0].Status.PodIP, pods[1].Status.PodIP = "10.128.1.255", "192.0.2.10"
	a.skipUsed(pods)
	if got := a.allocate(); got != "10.128.2.0" {
		t.Errorf("got %s after 10.128.1.255", got)
	}
}
