package podsim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Conditions of failing pods as summarize prints them.
const (
	appNotReady = "Ready False ContainersNotReady containers with unready status: [app]\n" +
		"ContainersReady False ContainersNotReady containers with unready status: [app]\n"
	setupNotInitialized = "Initialized False ContainersNotInitialized containers with incomplete status: [setup]\n"
	noSandbox           = "PodReadyToStartContainers False\n"
	completedConditions = noSandbox + "Initialized True PodCompleted\nReady False PodCompleted\nContainersReady False PodCompleted\n"
	failedConditions    = "Ready False PodFailed\nContainersReady False PodFailed\n"
)

type stepsTest struct {
	pod   *corev1.Pod
	steps []step
	want  string
	next  time.Duration
}

func (tc stepsTest) run(t *testing.T) {
	next := runSteps(tc.pod, tc.steps...)
	if diff := cmp.Diff(strings.Split(tc.want, "\n"), strings.Split(summarize(tc.pod.Status), "\n")); diff != "" {
		t.Error(diff)
	}
	if next != tc.next {
		t.Errorf("lasts %s, want %s", next, tc.next)
	}
}

// atStart checks a behavior at its start, afterOneHour when its status is stable.
func atStart(b Behavior) []step { return []step{{b, 0}} }

func afterOneHour(b Behavior) []step { return []step{{b, 0}, {b, time.Hour}} }

// recoversAfterOneHour fails for an hour and then becomes ready.
func recoversAfterOneHour(b Behavior) []step {
	return append(afterOneHour(b), step{Ready(), 2 * time.Hour})
}

// failsAfterOneHour is ready for an hour and then fails.
func failsAfterOneHour(b Behavior) []step { return []step{{Ready(), 0}, {b, time.Hour}} }

func TestOneContainer(t *testing.T) {
	tests := map[string]stepsTest{
		"ready":          {boundPod(), atStart(Ready()), "Running\napp running ready", 0},
		"slow":           {boundPod(), atStart(Slow(3 * time.Second)), "Running\n" + appNotReady + "app running", 3 * time.Second},
		"slow, later":    {boundPod(), afterOneHour(Slow(3 * time.Second)), "Running\napp running ready", 0},
		"never ready":    {boundPod(), afterOneHour(NeverReady()), "Running\n" + appNotReady + "app running", 0},
		"hangs":          {boundPod(), afterOneHour(Hang()), "Pending\n" + noSandbox + appNotReady + "app waits ContainerCreating", 0},
		"image":          {boundPod(), atStart(ImageNotFound()), "Pending\n" + appNotReady + "app waits ErrImagePull", 300 * time.Millisecond},
		"image, later":   {boundPod(), afterOneHour(ImageNotFound()), "Pending\n" + appNotReady + "app waits ImagePullBackOff", 0},
		"config missing": {boundPod(), afterOneHour(ConfigMissing("db")), "Pending\n" + appNotReady + "app waits CreateContainerConfigError", 0},
		"out of memory": {boundPod(), afterOneHour(OOMKilled()),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 3 last OOMKilled 137", 0},
		"exits with 0 although it should run": {boundPod(), afterOneHour(Succeeded()),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 3 last Completed 0", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

func TestCrashLoop(t *testing.T) {
	crash := CrashLoop(3).WithRestarts(2, time.Second)
	long := crash.After(2 * time.Second)
	tests := map[string]stepsTest{
		"first time": {boundPod(), atStart(crash), "Running\n" + appNotReady + "app ended Error 3", time.Second},
		"again": {boundPod(), []step{{crash, 0}, {crash, time.Second}},
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 1 last Error 3", time.Second},
		"rests": {boundPod(), afterOneHour(crash),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 2 last Error 3", 0},
		"runs first": {boundPod(), atStart(long), "Running\napp running ready", 2 * time.Second},
		"runs again": {boundPod(), []step{{long, 0}, {long, 4 * time.Second}},
			"Running\napp running ready restarts 1 last Error 3", time.Second},
		"down again": {boundPod(), []step{{long, 0}, {long, 5 * time.Second}},
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 1 last Error 3", time.Second},
		"runs with a probe": {boundPod(func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} }), atStart(long),
			"Running\n" + appNotReady + "app running", 2 * time.Second},
		"never restarted": {boundPod(), afterOneHour(CrashLoop(1).WithRestarts(0, 0)),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff last Error 1", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

// A pod whose behavior changes keeps its container history.
func TestBehaviorChangeKeepsContainerHistory(t *testing.T) {
	crash := CrashLoop(3).WithRestarts(2, time.Second)
	tests := map[string]stepsTest{
		"running, then crashes": {boundPod(), failsAfterOneHour(crash), "Running\n" + appNotReady + "app ended Error 3", time.Second},
		"running, then image denied": {boundPod(), failsAfterOneHour(ImageDenied()),
			"Running\n" + appNotReady + "app waits ErrImagePull last Error 137", 300 * time.Millisecond},
		"running, then unready": {boundPod(), failsAfterOneHour(NeverReady()), "Running\n" + appNotReady + "app running", 0},
		"crash recovers":        {boundPod(), recoversAfterOneHour(crash), "Running\napp running ready restarts 3 last Error 3", 0},
		"image recovers":        {boundPod(), recoversAfterOneHour(ImageNotFound()), "Running\napp running ready", 0},
		"unready recovers":      {boundPod(), recoversAfterOneHour(NeverReady()), "Running\napp running ready", 0},
		"hanging recovers":      {boundPod(), recoversAfterOneHour(Hang()), "Running\napp running ready", 0},
		"init recovers": {boundPod(withInitContainer("setup")), recoversAfterOneHour(crash.InContainer("setup")),
			"Running\nsetup ended Completed 0 ready restarts 3 last Error 3\napp running ready", 0},
		"running, image denied, then recovers": {boundPod(), append(failsAfterOneHour(ImageDenied()), step{Ready(), 2 * time.Hour}),
			"Running\napp running ready restarts 1 last Error 137", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

func TestPodsThatRunToCompletion(t *testing.T) {
	tests := map[string]stepsTest{
		"runs":     {boundPod(withRestartPolicy("Never")), atStart(Succeeded()), "Running\napp running ready", 300 * time.Millisecond},
		"succeeds": {boundPod(withRestartPolicy("Never")), afterOneHour(Succeeded()), "Succeeded\n" + completedConditions + "app ended Completed 0", 0},
		"fails":    {boundPod(withRestartPolicy("Never")), afterOneHour(Failed(2)), "Failed\n" + noSandbox + failedConditions + "app ended Error 2", 0},
		"succeeds at the first attempt": {boundPod(withRestartPolicy("OnFailure")), afterOneHour(Succeeded()),
			"Succeeded\n" + completedConditions + "app ended Completed 0", 0},
		"is retried in place": {boundPod(withRestartPolicy("OnFailure")), afterOneHour(Failed(2)),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 3 last Error 2", 0},
		"other containers complete": {boundPod(withRestartPolicy("Never"), withContainer("helper"), withSidecar("proxy")), afterOneHour(Succeeded()),
			"Succeeded\n" + completedConditions + "proxy ended Completed 0\napp ended Completed 0\nhelper ended Completed 0", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

func TestSeveralContainers(t *testing.T) {
	crash := CrashLoop(3).WithRestarts(2, time.Second)
	tests := map[string]stepsTest{
		"second container fails": {boundPod(withContainer("cache")), atStart(ConfigMissing("db").InContainer("cache")), "Pending\n" +
			strings.ReplaceAll(appNotReady, "app", "cache") + "app running ready\ncache waits CreateContainerConfigError", 0},
		"no such container": {boundPod(), atStart(CrashLoop(1).InContainer("nobody")), "Running\napp running ready", 0},
		"init done":         {boundPod(withInitContainer("setup")), atStart(Ready()), "Running\nsetup ended Completed 0 ready\napp running ready", 0},
		"init hangs": {boundPod(withInitContainer("setup")), atStart(Hang()), "Pending\n" + noSandbox + setupNotInitialized + appNotReady +
			"setup waits PodInitializing\napp waits PodInitializing", 0},
		"init crashes": {boundPod(withInitContainer("setup")), afterOneHour(crash.InContainer("setup")), "Pending\n" + setupNotInitialized + appNotReady +
			"setup waits CrashLoopBackOff restarts 2 last Error 3\napp waits PodInitializing", 0},
		"init container fails permanently": {boundPod(withRestartPolicy("Never"), withInitContainer("setup")), afterOneHour(crash.InContainer("setup")), "Failed\n" + noSandbox +
			setupNotInitialized + failedConditions + "setup ended Error 3\napp waits PodInitializing", 0},
		"slow init container": {boundPod(withInitContainer("setup")), atStart(Slow(time.Second).InContainer("setup")), "Pending\n" + setupNotInitialized +
			appNotReady + "setup running\napp waits PodInitializing", time.Second},
		"slow init container completed": {boundPod(withInitContainer("setup")), afterOneHour(Slow(time.Second).InContainer("setup")),
			"Running\nsetup ended Completed 0 ready\napp running ready", 0},
		"sidecar": {boundPod(withSidecar("proxy")), atStart(Ready()), "Running\nproxy running ready\napp running ready", 0},
		"sidecar not ready": {boundPod(withSidecar("proxy")), atStart(NeverReady().InContainer("proxy")), "Running\n" +
			strings.ReplaceAll(appNotReady, "app", "proxy") + "proxy running\napp running ready", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

// The messages that programs parse, checked against the sources of kubelet 1.36.3 and containerd 2.4.2.
func TestMessagesMatchKubelet(t *testing.T) {
	private := func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.example.com/team/app:2.1" }
	tests := map[string]struct {
		pod   *corev1.Pod
		steps []step
		want  string
	}{
		"image not found": {boundPod(), atStart(ImageNotFound()), `rpc error: code = NotFound desc = failed to pull and unpack image ` +
			`"docker.io/library/nginx:1.27": failed to resolve image: docker.io/library/nginx:1.27: not found`},
		"image not found, later": {boundPod(), afterOneHour(ImageNotFound()), `Back-off pulling image "nginx:1.27": ErrImagePull: rpc error: ` +
			`code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.27": failed to resolve image: ` +
			`docker.io/library/nginx:1.27: not found`},
		"image denied": {boundPod(private), atStart(ImageDenied()), `rpc error: code = Unknown desc = failed to pull and unpack image ` +
			`"registry.example.com/team/app:2.1": failed to resolve image: pull access denied, repository does not exist or may ` +
			`require authorization: server message: insufficient_scope: authorization failed`},
		"registry unreachable": {boundPod(private), atStart(RegistryUnreachable()), `rpc error: code = Unknown desc = failed to pull and ` +
			`unpack image "registry.example.com/team/app:2.1": failed to resolve image: failed to do request: Head ` +
			`"https://registry.example.com/v2/team/app/manifests/2.1": dial tcp: lookup registry.example.com on 10.96.0.10:53: no such host`},
		"config missing": {boundPod(), atStart(ConfigMissing("db")), `secret "db" not found`},
		"custom message": {boundPod(), atStart(ConfigMissing("").WithMessage(`configmap "settings" not found`)), `configmap "settings" not found`},
		"crash": {boundPod(), afterOneHour(CrashLoop(1)),
			`back-off 40s restarting failed container=app pod=web-1_shop(u1)`},
		"crash, many times": {boundPod(), afterOneHour(CrashLoop(1).WithRestarts(20, time.Second)),
			`back-off 5m0s restarting failed container=app pod=web-1_shop(u1)`},
		"unknown behavior": {boundPod(), atStart(chooseBehavior(&corev1.Pod{ObjectMeta: behaviorMeta("Redy")}, nil)),
			`podsim.holdfast.dev/behavior: unknown behavior "Redy", want one of Ready, Slow, NeverReady, Hang, ImageNotFound, ` +
				`ImageDenied, RegistryUnreachable, ConfigMissing, CrashLoop, OOMKilled, Succeeded, Failed, Unschedulable`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runSteps(tc.pod, tc.steps...)
			if diff := cmp.Diff(tc.want, tc.pod.Status.ContainerStatuses[0].State.Waiting.Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTerminationMessage(t *testing.T) {
	pod := boundPod()
	runSteps(pod, afterOneHour(CrashLoop(2).WithMessage("panic: no database"))...)
	terminated := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	want := &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: "panic: no database",
		StartedAt: at(0), FinishedAt: at(0), ContainerID: "containerd://" + hash("u1/app/3"),
	}
	if diff := cmp.Diff(want, terminated); diff != "" {
		t.Error(diff)
	}
}

// Every behavior of every pod becomes stable after a few status writes, continues from its own writes, and never loses a
// restart.
func TestEveryBehaviorConverges(t *testing.T) {
	pods := map[string]*corev1.Pod{
		"service": boundPod(), "job": boundPod(withRestartPolicy("Never")), "retried job": boundPod(withRestartPolicy("OnFailure")),
		"all": boundPod(withInitContainer("setup"), withSidecar("proxy"), withContainer("cache")),
	}
	for podKind, original := range pods {
		for _, b := range allBehaviors() {
			for _, target := range []string{"", "setup", "proxy", "cache"} {
				t.Run(strings.Join([]string{podKind, b.name, target}, " "), func(t *testing.T) {
					checkConverges(t, original.DeepCopy(), b.InContainer(target))
				})
			}
		}
	}
}

func checkConverges(t *testing.T, pod *corev1.Pod, b Behavior) {
	a := &activeBehavior{Behavior: b, since: baseTime, podIP: "10.128.0.1", hostIP: "192.0.2.10"}
	now := baseTime
	for range 20 {
		s, next := runningPodStatus(pod, a, now)
		if restartsOf(s) < restartsOf(pod.Status) {
			t.Fatalf("restarts went from %d to %d", restartsOf(pod.Status), restartsOf(s))
		}
		pod.Status = s
		if repeated, _ := runningPodStatus(pod, a, now.Add(next/2)); !cmp.Equal(repeated, s) {
			t.Fatalf("status changed before its duration ended: %s", cmp.Diff(s, repeated))
		}
		if next == 0 {
			return
		}
		now = now.Add(next)
	}
	t.Error("status is not stable after 20 writes")
}

func restartsOf(s corev1.PodStatus) int32 {
	var n int32
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		n += c.RestartCount
	}
	return n
}
