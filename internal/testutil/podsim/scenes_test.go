package podsim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What brief says about the conditions of pods in trouble.
const (
	appNotReady = "Ready False ContainersNotReady containers with unready status: [app]\n" +
		"ContainersReady False ContainersNotReady containers with unready status: [app]\n"
	setupMissing = "Initialized False ContainersNotInitialized containers with incomplete status: [setup]\n"
	noSandbox    = "PodReadyToStartContainers False\n"
	completed    = noSandbox + "Initialized True PodCompleted\nReady False PodCompleted\nContainersReady False PodCompleted\n"
	failed       = "Ready False PodFailed\nContainersReady False PodFailed\n"
)

type sceneTest struct {
	pod    *corev1.Pod
	scenes []scene
	want   string
	next   time.Duration
}

func (tc sceneTest) run(t *testing.T) {
	next := perform(tc.pod, tc.scenes...)
	if diff := cmp.Diff(strings.Split(tc.want, "\n"), strings.Split(brief(tc.pod.Status), "\n")); diff != "" {
		t.Error(diff)
	}
	if next != tc.next {
		t.Errorf("lasts %s, want %s", next, tc.next)
	}
}

// once looks at a behavior at noon, later again after an hour, when all has come to rest.
func once(b Behavior) []scene { return []scene{{b, 0}} }

func later(b Behavior) []scene { return []scene{{b, 0}, {b, time.Hour}} }

// healed is a pod that was in trouble for an hour.
func healed(b Behavior) []scene { return append(later(b), scene{Ready(), 2 * time.Hour}) }

// broken is a pod that was well for an hour.
func broken(b Behavior) []scene { return []scene{{Ready(), 0}, {b, time.Hour}} }

func TestOneContainer(t *testing.T) {
	tests := map[string]sceneTest{
		"ready":          {bound(), once(Ready()), "Running\napp running ready", 0},
		"slow":           {bound(), once(Slow(3 * time.Second)), "Running\n" + appNotReady + "app running", 3 * time.Second},
		"slow, later":    {bound(), later(Slow(3 * time.Second)), "Running\napp running ready", 0},
		"never ready":    {bound(), later(NeverReady()), "Running\n" + appNotReady + "app running", 0},
		"hangs":          {bound(), later(Hang()), "Pending\n" + noSandbox + appNotReady + "app waits ContainerCreating", 0},
		"image":          {bound(), once(ImageNotFound()), "Pending\n" + appNotReady + "app waits ErrImagePull", 300 * time.Millisecond},
		"image, later":   {bound(), later(ImageNotFound()), "Pending\n" + appNotReady + "app waits ImagePullBackOff", 0},
		"config missing": {bound(), later(ConfigMissing("db")), "Pending\n" + appNotReady + "app waits CreateContainerConfigError", 0},
		"out of memory": {bound(), later(OOMKilled()),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 3 last OOMKilled 137", 0},
		"exits well, though it should not": {bound(), later(Succeeded()),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 3 last Completed 0", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

func TestCrashLoop(t *testing.T) {
	crash := CrashLoop(3).Restarting(2, time.Second)
	long := crash.After(2 * time.Second)
	tests := map[string]sceneTest{
		"first time": {bound(), once(crash), "Running\n" + appNotReady + "app ended Error 3", time.Second},
		"again": {bound(), []scene{{crash, 0}, {crash, time.Second}},
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 1 last Error 3", time.Second},
		"rests": {bound(), later(crash),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 2 last Error 3", 0},
		"runs first": {bound(), once(long), "Running\napp running ready", 2 * time.Second},
		"runs again": {bound(), []scene{{long, 0}, {long, 4 * time.Second}},
			"Running\napp running ready restarts 1 last Error 3", time.Second},
		"down again": {bound(), []scene{{long, 0}, {long, 5 * time.Second}},
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 1 last Error 3", time.Second},
		"runs with a probe": {bound(func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} }), once(long),
			"Running\n" + appNotReady + "app running", 2 * time.Second},
		"never restarted": {bound(), later(CrashLoop(1).Restarting(0, 0)),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff last Error 1", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

// A pod that changes its behavior keeps what it went through.
func TestChanges(t *testing.T) {
	crash := CrashLoop(3).Restarting(2, time.Second)
	tests := map[string]sceneTest{
		"runner crashes": {bound(), broken(crash), "Running\n" + appNotReady + "app ended Error 3", time.Second},
		"runner loses its image": {bound(), broken(ImageDenied()),
			"Running\n" + appNotReady + "app waits ErrImagePull last Error 137", 300 * time.Millisecond},
		"runner becomes unready": {bound(), broken(NeverReady()), "Running\n" + appNotReady + "app running", 0},
		"crash heals":            {bound(), healed(crash), "Running\napp running ready restarts 3 last Error 3", 0},
		"image heals":            {bound(), healed(ImageNotFound()), "Running\napp running ready", 0},
		"unready heals":          {bound(), healed(NeverReady()), "Running\napp running ready", 0},
		"hanging heals":          {bound(), healed(Hang()), "Running\napp running ready", 0},
		"init heals": {bound(initContainer("setup")), healed(crash.In("setup")),
			"Running\nsetup ended Completed 0 ready restarts 3 last Error 3\napp running ready", 0},
		"runner loses its image and heals": {bound(), append(broken(ImageDenied()), scene{Ready(), 2 * time.Hour}),
			"Running\napp running ready restarts 1 last Error 137", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

func TestPodsThatEnd(t *testing.T) {
	tests := map[string]sceneTest{
		"runs":     {bound(policy("Never")), once(Succeeded()), "Running\napp running ready", 300 * time.Millisecond},
		"succeeds": {bound(policy("Never")), later(Succeeded()), "Succeeded\n" + completed + "app ended Completed 0", 0},
		"fails":    {bound(policy("Never")), later(Failed(2)), "Failed\n" + noSandbox + failed + "app ended Error 2", 0},
		"succeeds at the first try": {bound(policy("OnFailure")), later(Succeeded()),
			"Succeeded\n" + completed + "app ended Completed 0", 0},
		"is retried in place": {bound(policy("OnFailure")), later(Failed(2)),
			"Running\n" + appNotReady + "app waits CrashLoopBackOff restarts 3 last Error 2", 0},
		"ends with its helpers": {bound(policy("Never"), container("helper"), sidecar("proxy")), later(Succeeded()),
			"Succeeded\n" + completed + "proxy ended Completed 0\napp ended Completed 0\nhelper ended Completed 0", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

func TestSeveralContainers(t *testing.T) {
	crash := CrashLoop(3).Restarting(2, time.Second)
	tests := map[string]sceneTest{
		"second one in trouble": {bound(container("cache")), once(ConfigMissing("db").In("cache")), "Pending\n" +
			strings.ReplaceAll(appNotReady, "app", "cache") + "app running ready\ncache waits CreateContainerConfigError", 0},
		"no such container": {bound(), once(CrashLoop(1).In("nobody")), "Running\napp running ready", 0},
		"init done":         {bound(initContainer("setup")), once(Ready()), "Running\nsetup ended Completed 0 ready\napp running ready", 0},
		"init hangs": {bound(initContainer("setup")), once(Hang()), "Pending\n" + noSandbox + setupMissing + appNotReady +
			"setup waits PodInitializing\napp waits PodInitializing", 0},
		"init crashes": {bound(initContainer("setup")), later(crash.In("setup")), "Pending\n" + setupMissing + appNotReady +
			"setup waits CrashLoopBackOff restarts 2 last Error 3\napp waits PodInitializing", 0},
		"init fails for good": {bound(policy("Never"), initContainer("setup")), later(crash.In("setup")), "Failed\n" + noSandbox +
			setupMissing + failed + "setup ended Error 3\napp waits PodInitializing", 0},
		"init takes its time": {bound(initContainer("setup")), once(Slow(time.Second).In("setup")), "Pending\n" + setupMissing +
			appNotReady + "setup running\napp waits PodInitializing", time.Second},
		"init done after its time": {bound(initContainer("setup")), later(Slow(time.Second).In("setup")),
			"Running\nsetup ended Completed 0 ready\napp running ready", 0},
		"sidecar": {bound(sidecar("proxy")), once(Ready()), "Running\nproxy running ready\napp running ready", 0},
		"sidecar not ready": {bound(sidecar("proxy")), once(NeverReady().In("proxy")), "Running\n" +
			strings.ReplaceAll(appNotReady, "app", "proxy") + "proxy running\napp running ready", 0},
	}
	for name, tc := range tests {
		t.Run(name, tc.run)
	}
}

// The texts that programs and people look for, checked against the sources of kubelet
// 1.36.3 and containerd 2.4.2.
func TestTexts(t *testing.T) {
	private := func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.example.com/team/app:2.1" }
	tests := map[string]struct {
		pod    *corev1.Pod
		scenes []scene
		want   string
	}{
		"image not found": {bound(), once(ImageNotFound()), `rpc error: code = NotFound desc = failed to pull and unpack image ` +
			`"docker.io/library/nginx:1.27": failed to resolve image: docker.io/library/nginx:1.27: not found`},
		"image not found, later": {bound(), later(ImageNotFound()), `Back-off pulling image "nginx:1.27": ErrImagePull: rpc error: ` +
			`code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.27": failed to resolve image: ` +
			`docker.io/library/nginx:1.27: not found`},
		"image denied": {bound(private), once(ImageDenied()), `rpc error: code = Unknown desc = failed to pull and unpack image ` +
			`"registry.example.com/team/app:2.1": failed to resolve image: pull access denied, repository does not exist or may ` +
			`require authorization: server message: insufficient_scope: authorization failed`},
		"registry unreachable": {bound(private), once(RegistryUnreachable()), `rpc error: code = Unknown desc = failed to pull and ` +
			`unpack image "registry.example.com/team/app:2.1": failed to resolve image: failed to do request: Head ` +
			`"https://registry.example.com/v2/team/app/manifests/2.1": dial tcp: lookup registry.example.com on 10.96.0.10:53: no such host`},
		"config missing": {bound(), once(ConfigMissing("db")), `secret "db" not found`},
		"own words":      {bound(), once(ConfigMissing("").Saying(`configmap "settings" not found`)), `configmap "settings" not found`},
		"crash": {bound(), later(CrashLoop(1)),
			`back-off 40s restarting failed container=app pod=web-1_shop(u1)`},
		"crash, many times": {bound(), later(CrashLoop(1).Restarting(20, time.Second)),
			`back-off 5m0s restarting failed container=app pod=web-1_shop(u1)`},
		"unknown behavior": {bound(), once(choose(&corev1.Pod{ObjectMeta: annotation("Redy")}, nil)),
			`podsim.holdfast.dev/behavior: unknown behavior "Redy", want one of Ready, Slow, NeverReady, Hang, ImageNotFound, ` +
				`ImageDenied, RegistryUnreachable, ConfigMissing, CrashLoop, OOMKilled, Succeeded, Failed, Unschedulable`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			perform(tc.pod, tc.scenes...)
			if diff := cmp.Diff(tc.want, tc.pod.Status.ContainerStatuses[0].State.Waiting.Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLastWords(t *testing.T) {
	pod := bound()
	perform(pod, later(CrashLoop(2).Saying("panic: no database"))...)
	died := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	want := &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: "panic: no database",
		StartedAt: at(0), FinishedAt: at(0), ContainerID: "containerd://" + hash("u1/app/3"),
	}
	if diff := cmp.Diff(want, died); diff != "" {
		t.Error(diff)
	}
}

// Whatever the behavior and the pod, the play comes to rest after a few writes, goes on
// from what it wrote itself, and never forgets a restart.
func TestEverythingComesToRest(t *testing.T) {
	shapes := map[string]*corev1.Pod{
		"service": bound(), "job": bound(policy("Never")), "retried job": bound(policy("OnFailure")),
		"all": bound(initContainer("setup"), sidecar("proxy"), container("cache")),
	}
	for shape, original := range shapes {
		for _, b := range catalogue() {
			for _, target := range []string{"", "setup", "proxy", "cache"} {
				t.Run(strings.Join([]string{shape, b.name, target}, " "), func(t *testing.T) {
					checkRest(t, original.DeepCopy(), b.In(target))
				})
			}
		}
	}
}

func checkRest(t *testing.T, pod *corev1.Pod, b Behavior) {
	a := &act{Behavior: b, since: noon, podIP: "10.128.0.1", hostIP: "192.0.2.10"}
	now := noon
	for range 20 {
		s, next := statusOf(pod, a, now)
		if restartsOf(s) < restartsOf(pod.Status) {
			t.Fatalf("restarts went from %d to %d", restartsOf(pod.Status), restartsOf(s))
		}
		pod.Status = s
		if again, _ := statusOf(pod, a, now.Add(next/2)); !cmp.Equal(again, s) {
			t.Fatalf("differs within the time it should last: %s", cmp.Diff(s, again))
		}
		if next == 0 {
			return
		}
		now = now.Add(next)
	}
	t.Error("is not at rest after 20 writes")
}

func restartsOf(s corev1.PodStatus) int32 {
	var n int32
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		n += c.RestartCount
	}
	return n
}
