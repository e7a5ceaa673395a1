package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// up is a container that counts as ready.
func up(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true }

func crashStories() map[string]story {
	const (
		last    = "status.containerStatuses[0].lastState.terminated"
		current = "status.containerStatuses[0].state.terminated"
		logs    = "Read what it wrote last and correct what makes it end: kubectl logs -n shop web-1 -c app"
		limit   = "spec.containers[0].resources.limits.memory"
		killed  = "Container app of pod web-1 was killed because it used more than its memory limit of 64Mi"
		raise   = "Raise spec.resources.limits.memory of the application, or let it use less memory."
		events  = "Look for a failing liveness probe, or for who ends it, in the events of the pod: kubectl describe pod -n shop web-1"
		inFront = "Correct spec.command and spec.args of the application, so that its process stays in the foreground."
		setIt   = "Set spec.resources.requests.memory and spec.resources.limits.memory of the application to what it needs."
		command = "Correct spec.command and spec.args of the application, or the entrypoint of its image."
	)
	cause := func(code Code, path, value, sentence, fix string, said ...string) []Cause {
		return []Cause{{
			Code: code, Object: inPod("web-1"), Path: path, Value: value, Since: noon.Add(-unready),
			Sentence: sentence, Fix: fix, Evidence: append([]string{"1 of 1 pods"}, said...),
		}}
	}
	one := func(changes ...change) []*corev1.Pod { return []*corev1.Pod{pod("web-1", changes...)} }
	loop := waiting("CrashLoopBackOff", "back-off 40s restarting failed container=app pod=web-1_shop(uid-web-1)")
	exit3 := "Container app of pod web-1 crashes: it exited with code 3"
	error3 := `exit code 3, reason "Error"`
	lately := func(ended time.Duration) time.Time { return noon.Add(10*time.Minute - ended) }
	return map[string]story{
		"crash loop": {
			one(loop, restarted(5, end(3, "Error", "starting\npassword=hunter2\n\n", age))),
			cause("CrashLoop", last+".exitCode", "3", exit3, logs+" --previous", "restarts: 5", error3, "last output: password=hunter2"), time.Time{}},
		"crash loop without a last state": {
			one(loop), cause("CrashLoop", "status.containerStatuses[0].state.waiting.reason", "CrashLoopBackOff",
				"Container app of pod web-1 ends again and again soon after it starts", logs, "restarts: 0"), time.Time{}},
		"crash loop of an init container": {
			one(waiting("PodInitializing", ""), initContainer("migrate", corev1.ContainerStatus{RestartCount: 2,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: end(3, "Error", "", time.Minute)}})),
			cause("CrashLoop", "status.initContainerStatuses[0].lastState.terminated.exitCode", "3",
				"Init container migrate of pod web-1 crashes: it exited with code 3",
				"Read what it wrote last and correct what makes it end: kubectl logs -n shop web-1 -c migrate --previous", "restarts: 2", error3), time.Time{}},
		"ends well, again and again": {
			one(loop, restarted(4, end(0, "Completed", "", time.Minute))),
			cause("CrashLoop", last+".exitCode", "0", "Container app of pod web-1 ends although it should keep running: it exited with code 0", inFront,
				"restarts: 4", `exit code 0, reason "Completed"`), time.Time{}},
		"ended well and is about to be started again": {one(terminated(end(0, "Completed", "", time.Second))), nil, time.Time{}},
		"cannot be started": {
			one(loop, restarted(4, end(128, "StartError", "exec: /bin/nope: no such file", time.Minute))),
			cause("StartError", last, "StartError", "Container app of pod web-1 cannot be started: its command is not in the image", command,
				"restarts: 4", "exec: /bin/nope: no such file"), time.Time{}},
		"killed, but not for its memory": {
			one(loop, restarted(4, end(137, "Error", "", time.Minute))),
			cause("Killed", last+".exitCode", "137", "Container app of pod web-1 is killed from outside, and not for its use of memory (exit code 137)", events,
				"restarts: 4", `exit code 137, reason "Error"`), time.Time{}},
		"crashed just now": {
			one(terminated(end(3, "Error", "", time.Second))),
			cause("CrashLoop", current+".exitCode", "3", exit3, logs, "restarts: 0", error3), lately(time.Second)},
		"failed for good": {
			one(terminated(end(3, "Error", "", time.Second)), phase("Failed", "")),
			cause("CrashLoop", current+".exitCode", "3", exit3, logs, "restarts: 0", error3), lately(time.Second)},
		"runs again after a crash": {
			one(running(time.Minute), restarted(1, end(3, "Error", "", 9*time.Minute))),
			cause("CrashLoop", last+".exitCode", "3", exit3, logs+" --previous", "restarts: 1", error3), lately(9 * time.Minute)},
		"ready again, but for how long": {
			one(ready, running(5*time.Second), up, restarted(3, end(3, "Error", "", 20*time.Second))),
			[]Cause{{
				Code: "CrashLoop", Object: inPod("web-1"), Path: last + ".exitCode", Value: "3", Since: noon.Add(-20 * time.Second),
				Sentence: exit3, Fix: logs + " --previous", Evidence: []string{"1 of 1 pods", "restarts: 3", error3},
			}}, noon.Add(25 * time.Second)},
		"ready again, and it stays":      {one(ready, running(30*time.Second), up, restarted(3, end(3, "Error", "", time.Minute))), nil, time.Time{}},
		"runs again long after a crash":  {one(running(time.Minute), restarted(1, end(3, "Error", "", 10*time.Minute))), nil, time.Time{}},
		"a crash that was not followed":  {one(running(time.Minute), restarted(0, end(3, "Error", "", time.Minute))), nil, time.Time{}},
		"runs again after it ended well": {one(running(time.Minute), restarted(1, end(0, "Completed", "", time.Minute))), nil, time.Time{}},
		"runs again after its node did":  {one(running(time.Minute), restarted(1, end(255, "Unknown", "", time.Minute))), nil, time.Time{}},
		"runs again after it was lost":   {one(running(time.Minute), restarted(1, end(137, "ContainerStatusUnknown", "", time.Minute))), nil, time.Time{}},
		"an init container that failed before it succeeded": {
			one(waiting("ContainerCreating", ""), initContainer("migrate", corev1.ContainerStatus{RestartCount: 1,
				State:                corev1.ContainerState{Terminated: end(0, "Completed", "", time.Second)},
				LastTerminationState: corev1.ContainerState{Terminated: end(3, "Error", "", time.Minute)}})), nil, time.Time{}},
		"out of memory, in back-off": {
			one(limits("64Mi"), loop, restarted(5, end(137, "OOMKilled", "", age))),
			cause("OOMKilled", limit, "64Mi", killed, raise, "restarts: 5", `exit code 137, reason "OOMKilled"`), time.Time{}},
		"out of memory just now": {
			one(limits("64Mi"), terminated(end(137, "OOMKilled", "", time.Second))),
			cause("OOMKilled", limit, "64Mi", killed, raise, "restarts: 0", `exit code 137, reason "OOMKilled"`), lately(time.Second)},
		"out of memory and running again": {
			one(limits("64Mi"), running(time.Second), restarted(1, end(0, "OOMKilled", "", time.Minute))),
			cause("OOMKilled", limit, "64Mi", killed, raise, "restarts: 1", `exit code 0, reason "OOMKilled"`), lately(time.Minute)},
		"out of memory without a limit": {
			one(loop, restarted(5, end(137, "OOMKilled", "", age))),
			cause("OOMKilled", last+".reason", "OOMKilled",
				"Container app of pod web-1 was killed for its use of memory, although it has no memory limit of its own", setIt,
				"restarts: 5", `exit code 137, reason "OOMKilled"`), time.Time{}},
	}
}
