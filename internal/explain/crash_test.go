package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// containerReady marks the container as ready.
func containerReady(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true }

func crashCases() map[string]podCase {
	const (
		last          = "status.containerStatuses[0].lastState.terminated"
		current       = "status.containerStatuses[0].state.terminated"
		logsFix       = "Check the last log lines of the container: kubectl logs -n shop web-1 -c app"
		limit         = "spec.containers[0].resources.limits.memory"
		killed        = "Container app of Pod web-1 was killed because it used more than its memory limit of 64Mi"
		raiseLimitFix = "Raise spec.resources.limits.memory of the application, or reduce its memory usage."
		eventsFix     = "Check the events of the pod for a failing liveness probe or another reason: kubectl describe pod -n shop web-1"
		foregroundFix = "Correct spec.command and spec.args of the application, so that the process stays in the foreground."
		setLimitFix   = "Set spec.resources.requests.memory and spec.resources.limits.memory of the application to its actual memory usage."
		commandFix    = "Correct spec.command and spec.args of the application, or the entrypoint of its image."
	)
	cause := func(code Code, path, value, sentence, fix string, evidenceLines ...string) []Cause {
		return []Cause{{
			Code: code, Object: testPodRef("web-1"), Path: path, Value: value, Since: testNow.Add(-unreadyFor),
			Message: sentence, Fix: fix, Evidence: append([]string{"1 of 1 pods"}, evidenceLines...),
		}}
	}
	onePod := func(changes ...podOption) []*corev1.Pod { return []*corev1.Pod{pod("web-1", changes...)} }
	loop := waiting("CrashLoopBackOff", "back-off 40s restarting failed container=app pod=web-1_shop(uid-web-1)")
	exit3 := "Container app of Pod web-1 crashes: it exited with code 3"
	error3 := `exit code 3, reason "Error"`
	recheckAfter := func(ended time.Duration) time.Time { return testNow.Add(10*time.Minute - ended) }
	return map[string]podCase{
		"crash loop": {
			onePod(loop, restarted(5, termination(3, "Error", "starting\npassword=hunter2\n\n", podAge))),
			cause("CrashLoop", last+".exitCode", "3", exit3, logsFix+" --previous", "restarts: 5", error3, "last output: password=hunter2"), time.Time{}},
		"crash loop without a last state": {
			onePod(loop), cause("CrashLoop", "status.containerStatuses[0].state.waiting.reason", "CrashLoopBackOff",
				"Container app of Pod web-1 exits repeatedly soon after it starts", logsFix, "restarts: 0"), time.Time{}},
		"crash loop of an init container": {
			onePod(waiting("PodInitializing", ""), withInitContainer("migrate", corev1.ContainerStatus{RestartCount: 2,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: termination(3, "Error", "", time.Minute)}})),
			cause("CrashLoop", "status.initContainerStatuses[0].lastState.terminated.exitCode", "3",
				"Init container migrate of Pod web-1 crashes: it exited with code 3",
				"Check the last log lines of the container: kubectl logs -n shop web-1 -c migrate --previous", "restarts: 2", error3), time.Time{}},
		"exits with code 0 repeatedly": {
			onePod(loop, restarted(4, termination(0, "Completed", "", time.Minute))),
			cause("CrashLoop", last+".exitCode", "0", "Container app of Pod web-1 exited with code 0, but it should keep running", foregroundFix,
				"restarts: 4", `exit code 0, reason "Completed"`), time.Time{}},
		"exited with code 0 and is about to restart": {onePod(terminated(termination(0, "Completed", "", time.Second))), nil, time.Time{}},
		"cannot be started": {
			onePod(loop, restarted(4, termination(128, "StartError", "exec: /bin/nope: no such file", time.Minute))),
			cause("StartError", last, "StartError", "Container app of Pod web-1 cannot be started: its command is not in the image", commandFix,
				"restarts: 4", "exec: /bin/nope: no such file"), time.Time{}},
		"killed, but not by the OOM killer": {
			onePod(loop, restarted(4, termination(137, "Error", "", time.Minute))),
			cause("Killed", last+".exitCode", "137", "Container app of Pod web-1 was killed by a signal, but not by the OOM killer (exit code 137)",
				eventsFix,
				"restarts: 4", `exit code 137, reason "Error"`), time.Time{}},
		"crashed just now": {
			onePod(terminated(termination(3, "Error", "", time.Second))),
			cause("CrashLoop", current+".exitCode", "3", exit3, logsFix, "restarts: 0", error3), recheckAfter(time.Second)},
		"pod failed": {
			onePod(terminated(termination(3, "Error", "", time.Second)), phase("Failed", "")),
			cause("CrashLoop", current+".exitCode", "3", exit3, logsFix, "restarts: 0", error3), recheckAfter(time.Second)},
		"running after a crash": {
			onePod(running(time.Minute), restarted(1, termination(3, "Error", "", 9*time.Minute))),
			cause("CrashLoop", last+".exitCode", "3", exit3, logsFix+" --previous", "restarts: 1", error3), recheckAfter(9 * time.Minute)},
		"ready shortly after a crash": {
			onePod(ready, running(5*time.Second), containerReady, restarted(3, termination(3, "Error", "", 20*time.Second))),
			[]Cause{{
				Code: "CrashLoop", Object: testPodRef("web-1"), Path: last + ".exitCode", Value: "3", Since: testNow.Add(-20 * time.Second),
				Message: exit3, Fix: logsFix + " --previous", Evidence: []string{"1 of 1 pods", "restarts: 3", error3},
			}}, testNow.Add(25 * time.Second)},
		"stable after a crash": {onePod(ready, running(30*time.Second), containerReady,
			restarted(3, termination(3, "Error", "", time.Minute))), nil, time.Time{}},
		"running long after a crash": {onePod(running(time.Minute), restarted(1, termination(3, "Error", "", 10*time.Minute))), nil,
			time.Time{}},
		"crash without a restart": {onePod(running(time.Minute), restarted(0, termination(3, "Error", "", time.Minute))), nil, time.Time{}},
		"running after exit code 0": {onePod(running(time.Minute), restarted(1, termination(0, "Completed", "", time.Minute))), nil,
			time.Time{}},
		"running after a node restart": {onePod(running(time.Minute), restarted(1, termination(255, "Unknown", "", time.Minute))), nil,
			time.Time{}},
		"running after it was lost": {onePod(running(time.Minute), restarted(1, termination(137, "ContainerStatusUnknown", "", time.Minute))),
			nil, time.Time{}},
		"init container failed before it succeeded": {
			onePod(waiting("ContainerCreating", ""), withInitContainer("migrate", corev1.ContainerStatus{RestartCount: 1,
				State:                corev1.ContainerState{Terminated: termination(0, "Completed", "", time.Second)},
				LastTerminationState: corev1.ContainerState{Terminated: termination(3, "Error", "", time.Minute)}})), nil, time.Time{}},
		"out of memory, in back-off": {
			onePod(limits("64Mi"), loop, restarted(5, termination(137, "OOMKilled", "", podAge))),
			cause("OOMKilled", limit, "64Mi", killed, raiseLimitFix, "restarts: 5", `exit code 137, reason "OOMKilled"`), time.Time{}},
		"out of memory just now": {
			onePod(limits("64Mi"), terminated(termination(137, "OOMKilled", "", time.Second))),
			cause("OOMKilled", limit, "64Mi", killed, raiseLimitFix, "restarts: 0", `exit code 137, reason "OOMKilled"`), recheckAfter(time.Second)},
		"out of memory and running again": {
			onePod(limits("64Mi"), running(time.Second), restarted(1, termination(0, "OOMKilled", "", time.Minute))),
			cause("OOMKilled", limit, "64Mi", killed, raiseLimitFix, "restarts: 1", `exit code 0, reason "OOMKilled"`), recheckAfter(time.Minute)},
		"out of memory without a limit": {
			onePod(loop, restarted(5, termination(137, "OOMKilled", "", podAge))),
			cause("OOMKilled", last+".reason", "OOMKilled",
				"Container app of Pod web-1 was killed by the OOM killer, although it has no memory limit", setLimitFix,
				"restarts: 5", `exit code 137, reason "OOMKilled"`), time.Time{}},
	}
}
