package explain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// testNow is the current time in these tests.
var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(testNow.Add(-d)) }

// By default, pods in these tests are an hour old and have not been ready for 30 minutes.
const (
	podAge     = time.Hour
	unreadyFor = 30 * time.Minute
)

// podCase is a list of pods and the expected diagnosis.
type podCase struct {
	pods      []*corev1.Pod
	want      []Cause
	recheckAt time.Time
}

// pod returns a scheduled pod with one container, "app", which is being created.
func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", CreationTimestamp: ago(podAge),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "holdfast", "apps.holdfast.dev/workload": "deployment-web", "other": "x"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", RestartPolicy: "Always",
			Containers: []corev1.Container{{Name: "app", Image: "shop/web:2", Env: []corev1.EnvVar{{Name: "A", Value: "B"}}}},
		},
		Status: corev1.PodStatus{
			Phase: "Pending", PodIP: "10.1.2.3",
			Conditions: []corev1.PodCondition{
				{Type: "Initialized", Status: "True"},
				{Type: "Ready", Status: "False", Reason: "ContainersNotReady", LastTransitionTime: ago(unreadyFor)},
				{Type: "ContainersReady", Status: "False", Reason: "ContainersNotReady", LastTransitionTime: ago(unreadyFor)},
				{Type: "PodScheduled", Status: "True", LastTransitionTime: ago(podAge)},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Image: "docker.io/shop/web:2", ContainerID: "containerd://1", Started: new(false),
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
			}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

type podOption = func(*corev1.Pod)

// withAppStatus changes the status of the first container.
func withAppStatus(mutate func(*corev1.ContainerStatus)) podOption {
	return func(p *corev1.Pod) { mutate(&p.Status.ContainerStatuses[0]) }
}

func waiting(reason, message string) podOption {
	return withAppStatus(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func running(since time.Duration) podOption {
	return withAppStatus(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(since)}}
		s.Started = new(true)
	})
}

func termination(code int32, reason, message string, when time.Duration) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, FinishedAt: ago(when), StartedAt: ago(when + time.Second), ContainerID: "containerd://0",
	}
}

func terminated(t *corev1.ContainerStateTerminated) podOption {
	return withAppStatus(func(s *corev1.ContainerStatus) { s.State = corev1.ContainerState{Terminated: t} })
}

// restarted sets the restart count and the last termination.
func restarted(times int32, t *corev1.ContainerStateTerminated) podOption {
	return withAppStatus(func(s *corev1.ContainerStatus) { s.RestartCount, s.LastTerminationState.Terminated = times, t })
}

func ready(p *corev1.Pod) {
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].Status = "True"
	}
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(ago(time.Second)) }

func phase(phase corev1.PodPhase, reason string) podOption {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = phase, reason }
}

func created(before time.Duration) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = ago(before) }
}

func image(name string) podOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
}

func withContainer(name string, s corev1.ContainerStatus) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: "shop/" + name})
		s.Name = name
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

func withInitContainer(name string, s corev1.ContainerStatus) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, Image: "shop/" + name})
		s.Name = name
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, s)
	}
}

func limits(memory string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": resource.MustParse(memory), "cpu": resource.MustParse("2")}
	}
}

// testPodRef returns the reference to a test pod.
func testPodRef(name string) ObjectRef {
	return ObjectRef{Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}
}

// podCases returns all cases, for tests of invariants.
func podCases() map[string]podCase {
	all := map[string]podCase{}
	for _, cases := range []map[string]podCase{
		noCauseCases(), multiPodCases(), missingRefCases(), imageCases(), crashCases(), startupCases(), probeCases(), scheduleCases(),
	} {
		maps.Copy(all, cases)
	}
	return all
}

func TestExplainPods(t *testing.T) {
	for name, tc := range podCases() {
		t.Run(name, func(t *testing.T) {
			got, again := diagnosePods(tc.pods, testNow)
			if diff := cmp.Diff(tc.want, got, ignoreAffectedPods); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if !again.Equal(tc.recheckAt) {
				t.Errorf("recheck at %s, want %s", again, tc.recheckAt)
			}
		})
	}
}

func noCauseCases() map[string]podCase {
	crash := restarted(3, termination(1, "Error", "boom", time.Minute))
	loop := waiting("CrashLoopBackOff", "back-off 40s restarting failed container")
	return map[string]podCase{
		"no pods":                         {},
		"no pod":                          {pods: []*corev1.Pod{nil}},
		"being created":                   {pods: []*corev1.Pod{pod("web-1")}},
		"ready":                           {pods: []*corev1.Pod{pod("web-1", loop, crash, ready)}},
		"being deleted":                   {pods: []*corev1.Pod{pod("web-1", loop, crash, deleted)}},
		"succeeded":                       {pods: []*corev1.Pod{pod("web-1", terminated(termination(0, "Completed", "", time.Minute)), phase("Succeeded", ""))}},
		"evicted":                         {pods: []*corev1.Pod{pod("web-1", terminated(termination(137, "Error", "", time.Minute)), phase("Failed", "Evicted"))}},
		"without statuses and conditions": {pods: []*corev1.Pod{pod("web-1", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })}},
		"readiness gate is closed": {pods: []*corev1.Pod{pod("web-1", running(podAge),
			withAppStatus(func(s *corev1.ContainerStatus) { s.Ready = true }))}},
	}
}

// multiPodCases have several pods, containers or causes at once.
func multiPodCases() map[string]podCase {
	noSecret := waiting("CreateContainerConfigError", `secret "web-token" not found`)
	missing := Cause{
		Code: "MissingSecret", Object: testPodRef("web-b"), Path: "status.containerStatuses[0].state.waiting", Value: "web-token", Since: testNow.Add(-unreadyFor),
		Message:  `Container app of Pod web-b needs Secret "web-token", which does not exist in namespace shop`,
		Fix:      `Create Secret "web-token" in namespace shop, or correct spec.env and spec.envFrom of the application.`,
		Evidence: []string{"3 of 5 pods", `secret "web-token" not found`},
	}
	exit := func(container, where, workload string, code string) Cause {
		return Cause{
			Code: "CrashLoop", Object: testPodRef(workload), Path: "status.containerStatuses[" + where + "].lastState.terminated.exitCode", Value: code,
			Since:    testNow.Add(-unreadyFor),
			Message:  "Container " + container + " of Pod " + workload + " crashes: it exited with code " + code,
			Fix:      "Check the last log lines of the container: kubectl logs -n shop " + workload + " -c " + container + " --previous",
			Evidence: []string{"1 of 2 pods", "restarts: 2", `exit code ` + code + `, reason "Error"`},
		}
	}
	inOnlyPod := func(c Cause) Cause { c.Evidence[0] = "1 of 1 pods"; return c }
	loop := waiting("CrashLoopBackOff", "")
	loopStatus := corev1.ContainerStatus{RestartCount: 2,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: termination(2, "Error", "", time.Minute)}}
	other := func(p *corev1.Pod) { p.Labels["apps.holdfast.dev/workload"] = "deployment-worker" }
	pullFails := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "shop/side: not found"}}}
	return map[string]podCase{
		"same cause in several pods is reported for the oldest, then by name": {
			pods: []*corev1.Pod{pod("web-c", noSecret), pod("web-b", noSecret), pod("web-a", noSecret, created(time.Minute)),
				pod("web-d", ready), pod("web-e"), pod("web-f", noSecret, deleted), nil},
			want: []Cause{missing},
		},
		"two crashing containers are two causes": {
			pods: []*corev1.Pod{pod("web-1", loop, restarted(2, termination(1, "Error", "", time.Minute)), withContainer("side", loopStatus))},
			want: []Cause{inOnlyPod(exit("app", "0", "web-1", "1")), inOnlyPod(exit("side", "1", "web-1", "2"))},
		},
		"crashing containers of the same name in two workloads are two causes": {
			pods: []*corev1.Pod{pod("worker-1", loop, restarted(2, termination(2, "Error", "", time.Minute)), other), pod("web-1", loop, restarted(2, termination(1, "Error", "", time.Minute)))},
			want: []Cause{exit("app", "0", "web-1", "1"), exit("app", "0", "worker-1", "2")},
		},
		"same container crashes in two pods with different exit codes": {
			pods: []*corev1.Pod{pod("web-1", loop, restarted(2, termination(1, "Error", "", time.Minute))), pod("web-2", loop, restarted(2, termination(2, "Error", "", time.Minute)))},
			want: []Cause{func() Cause { c := exit("app", "0", "web-1", "1"); c.Evidence[0] = "2 of 2 pods"; return c }()},
		},
		"missing references come before images, and images before crashes": {
			pods: []*corev1.Pod{
				pod("a-crash", loop, restarted(2, termination(1, "Error", "", time.Minute)), withContainer("side", pullFails)),
				pod("web-b", noSecret),
			},
			want: []Cause{
				func() Cause { c := missing; c.Evidence = []string{"1 of 2 pods", c.Evidence[1]}; return c }(),
				{
					Code: "ImageNotFound", Object: testPodRef("a-crash"), Path: "status.containerStatuses[1].state.waiting", Value: "shop/side", Since: testNow.Add(-unreadyFor),
					Message:  `Image "shop/side" does not exist in its registry (container side of Pod a-crash)`,
					Fix:      "Correct spec.image of the application, or push the image.",
					Evidence: []string{"1 of 2 pods", "shop/side: not found"},
				},
				exit("app", "0", "a-crash", "1"),
			},
		},
	}
}

func TestExplainPodsIgnoresPodOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sets := podCases()
	var all []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		for _, p := range copyPods(sets[name].pods) {
			p.Name = fmt.Sprintf("web-%d", len(all))
			all = append(all, p)
		}
	}
	sets["all pods at once"] = podCase{pods: all}
	for name, tc := range sets {
		t.Run(name, func(t *testing.T) {
			want, wantAgain := diagnosePods(tc.pods, testNow)
			for range 5 {
				shuffled := slices.Clone(tc.pods)
				rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				got, again := diagnosePods(shuffled, testNow)
				if diff := cmp.Diff(want, got, ignoreAffectedPods); diff != "" {
					t.Fatalf("causes of shuffled pods (-want +got):\n%s", diff)
				}
				if again != wantAgain {
					t.Fatalf("recheck at %s, want %s", again, wantAgain)
				}
			}
		})
	}
}

func TestExplainDoesNotMutatePods(t *testing.T) {
	for name, tc := range podCases() {
		t.Run(name, func(t *testing.T) {
			before := copyPods(tc.pods)
			diagnosePods(tc.pods, testNow)
			for _, p := range tc.pods {
				ProjectPod(p)
			}
			if diff := cmp.Diff(before, copyPods(tc.pods)); diff != "" {
				t.Errorf("pods (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSinceFallsBack(t *testing.T) {
	without := func(kinds ...corev1.PodConditionType) podOption {
		return func(p *corev1.Pod) {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return slices.Contains(kinds, c.Type) })
		}
	}
	at := func(kind corev1.PodConditionType, t metav1.Time) podOption {
		return func(p *corev1.Pod) {
			for i := range p.Status.Conditions {
				if c := &p.Status.Conditions[i]; c.Type == kind {
					c.LastTransitionTime = t
				}
			}
		}
	}
	cases := map[string]struct {
		changes []podOption
		want    time.Time
	}{
		"when the containers became unready": {[]podOption{at("Ready", ago(time.Minute))}, testNow.Add(-unreadyFor)},
		"when the pod became unready": {[]podOption{without("ContainersReady"), at("Ready", ago(time.Minute))},
			testNow.Add(-time.Minute)},
		"when the pod was created": {[]podOption{without("ContainersReady", "Ready")}, testNow.Add(-podAge)},
		"condition without a transition time does not count": {[]podOption{at("ContainersReady", metav1.Time{}), at("Ready", metav1.Time{})},
			testNow.Add(-podAge)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pod("web-1", append(tc.changes, waiting("ErrImagePull", "not found"))...)
			got, _ := diagnosePods([]*corev1.Pod{p}, testNow)
			if len(got) != 1 || !got[0].Since.Equal(tc.want) {
				t.Errorf("causes %v, want one since %s", got, tc.want)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 253)
	p := pod(long, image(long+"."+long+"/"+long+long+"\n:2"), waiting("ErrImagePull", "unauthorized"), func(p *corev1.Pod) {
		for range 16 {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: long})
		}
	})
	got, _ := diagnosePods([]*corev1.Pod{p}, testNow)
	if len(got) != 1 || len(got[0].Message) != 512 || !strings.HasSuffix(got[0].Message, "...") {
		t.Errorf("causes: %v, want one whose message is truncated to 512 bytes", got)
	}
}
