package podsim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containerHistory is the history of a container at the start of a behavior.
type containerHistory struct {
	wasStarted      bool                             // it was started before
	restarts        int32                            // restart count at the start of the behavior
	newRestarts     int32                            // 1 if the behavior starts with a restart, 0 if the container keeps running
	startedAt       metav1.Time                      // start of the current run
	lastTermination *corev1.ContainerStateTerminated // end of the previous run
}

func (a *activeBehavior) history(c *corev1.Container) containerHistory {
	p := containerHistory{startedAt: truncateToSecond(a.since)}
	i := slices.IndexFunc(a.previous, hasName(c.Name))
	if i < 0 {
		return p
	}
	previous := &a.previous[i]
	p.restarts = previous.RestartCount
	p.lastTermination = previous.LastTerminationState.Terminated
	switch {
	case previous.State.Running != nil:
		p.wasStarted, p.startedAt = true, previous.State.Running.StartedAt
	case previous.State.Terminated != nil:
		p.wasStarted, p.newRestarts, p.lastTermination = true, 1, previous.State.Terminated
	case p.lastTermination != nil:
		p.wasStarted, p.newRestarts = true, 1
	}
	p.restarts += p.newRestarts
	return p
}

// restartInterval is the time between two starts of an exiting container.
func (a *activeBehavior) restartInterval() time.Duration {
	return max(a.after+a.backoff, time.Millisecond)
}

// restartsSoFar returns the number of restarts since the start of the behavior and the time since the last start.
func (a *activeBehavior) restartsSoFar(restart bool, elapsed time.Duration) (n int32, since time.Duration) {
	if restart {
		n = int32(min(int64(a.restarts), int64(elapsed/a.restartInterval())))
	}
	return n, elapsed - time.Duration(n)*a.restartInterval()
}

// startTime returns the time of the n-th start since the start of the behavior.
func (a *activeBehavior) startTime(p containerHistory, n int32) metav1.Time {
	if n == 0 {
		return p.startedAt
	}
	return truncateToSecond(a.since.Add(time.Duration(n) * a.restartInterval()))
}

// termination returns how this run ended.
func (a *activeBehavior) termination(pod *corev1.Pod, c *corev1.Container, p containerHistory, n int32) *corev1.ContainerStateTerminated {
	reason := a.reason
	switch {
	case reason != "":
	case a.exitCode == 0:
		reason = reasonCompleted
	default:
		reason = reasonError
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: a.exitCode, Reason: reason, Message: a.message,
		StartedAt:   a.startTime(p, n),
		FinishedAt:  truncateToSecond(a.since.Add(time.Duration(n)*a.restartInterval() + a.after)),
		ContainerID: containerID(pod, c, p.restarts+n),
	}
}

// killedState returns the state of a container that was killed from outside.
func killedState(id string, startedAt, finishedAt metav1.Time) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reasonError, StartedAt: startedAt, FinishedAt: finishedAt, ContainerID: id}
}

// shouldRestart reports whether the kubelet restarts a container after this exit code.
func shouldRestart(pod *corev1.Pod, isInit bool, code int32) bool {
	switch pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return !isInit || code != 0
}

const (
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
)

// backOffMessage returns the kubelet's message for a container in CrashLoopBackOff. The simulator waits for less than
// the stated time.
func backOffMessage(pod *corev1.Pod, c *corev1.Container, restarts int32) string {
	d := firstBackOff
	for range min(restarts, 10) - 1 {
		d = min(2*d, maxBackOff)
	}
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", d, c.Name, pod.Name, pod.Namespace, pod.UID)
}

// startedStatus returns the status of a container that was started at least once.
func startedStatus(pod *corev1.Pod, c *corev1.Container, restarts int32) corev1.ContainerStatus {
	i := parseImage(c.Image)
	return corev1.ContainerStatus{
		Name: c.Name, RestartCount: restarts, Started: new(false),
		Image: i.String(), ImageID: i.id(), ContainerID: containerID(pod, c, restarts),
		Resources: c.Resources.DeepCopy(), AllocatedResources: c.Resources.Requests.DeepCopy(), VolumeMounts: volumeMountStatuses(c),
	}
}

func containerID(pod *corev1.Pod, c *corev1.Container, restarts int32) string {
	return "containerd://" + hash(fmt.Sprintf("%s/%s/%d", pod.UID, c.Name, restarts))
}

func volumeMountStatuses(c *corev1.Container) []corev1.VolumeMountStatus {
	var all []corev1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			s.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
		}
		all = append(all, s)
	}
	return all
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func isInitOf(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// initialized reports whether the containers after this init container can start.
func initialized(c *corev1.Container, s *corev1.ContainerStatus) bool {
	if isSidecar(c) {
		return s.Started != nil && *s.Started
	}
	return s.Ready
}

func succeeded(s *corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}

func hasName(name string) func(corev1.ContainerStatus) bool {
	return func(s corev1.ContainerStatus) bool { return s.Name == name }
}

// initialWaitingReason returns the waiting reason of a container that was not started yet.
func initialWaitingReason(pod *corev1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return reasonPodInitializing
	}
	return reasonContainerCreating
}

// truncateToSecond truncates to the precision of times in the API.
func truncateToSecond(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
