package podsim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// past is what a container had behind it when an act began.
type past struct {
	ran      bool                             // it was started before
	restarts int32                            // number of the life that the act begins with
	next     int32                            // 1 when that life is a new one, 0 when it goes on
	born     metav1.Time                      // when that life began
	last     *corev1.ContainerStateTerminated // how the life before it ended
}

func (a *act) past(c *corev1.Container) past {
	p := past{born: seconds(a.since)}
	i := slices.IndexFunc(a.before, named(c.Name))
	if i < 0 {
		return p
	}
	was := &a.before[i]
	p.restarts = was.RestartCount
	p.last = was.LastTerminationState.Terminated
	switch {
	case was.State.Running != nil:
		p.ran, p.born = true, was.State.Running.StartedAt
	case was.State.Terminated != nil:
		p.ran, p.next, p.last = true, 1, was.State.Terminated
	case p.last != nil:
		p.ran, p.next = true, 1
	}
	p.restarts += p.next
	return p
}

// cycle is the time from one start of a container that exits to the next.
func (a *act) cycle() time.Duration { return max(a.after+a.pause, time.Millisecond) }

// life says how many restarts there were since the act began, and how long ago the last
// start is.
func (a *act) life(again bool, elapsed time.Duration) (n int32, since time.Duration) {
	if again {
		n = int32(min(int64(a.restarts), int64(elapsed/a.cycle())))
	}
	return n, elapsed - time.Duration(n)*a.cycle()
}

// birth is when the n-th life since the act began has begun.
func (a *act) birth(p past, n int32) metav1.Time {
	if n == 0 {
		return p.born
	}
	return seconds(a.since.Add(time.Duration(n) * a.cycle()))
}

// death is how that life ended.
func (a *act) death(pod *corev1.Pod, c *corev1.Container, p past, n int32) *corev1.ContainerStateTerminated {
	reason := a.reason
	switch {
	case reason != "":
	case a.code == 0:
		reason = reasonCompleted
	default:
		reason = reasonError
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: a.code, Reason: reason, Message: a.text,
		StartedAt:   a.birth(p, n),
		FinishedAt:  seconds(a.since.Add(time.Duration(n)*a.cycle() + a.after)),
		ContainerID: containerID(pod, c, p.restarts+n),
	}
}

// killed is the end of a container that was stopped from outside.
func killed(id string, born, died metav1.Time) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reasonError, StartedAt: born, FinishedAt: died, ContainerID: id}
}

// restarted says whether kubelet starts a container again that ended with this code.
func restarted(pod *corev1.Pod, isInit bool, code int32) bool {
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

// backOffText is what kubelet says about a container that was restarted often. We do
// not wait as long as we say.
func backOffText(pod *corev1.Pod, c *corev1.Container, restarts int32) string {
	d := firstBackOff
	for range min(restarts, 10) - 1 {
		d = min(2*d, maxBackOff)
	}
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", d, c.Name, pod.Name, pod.Namespace, pod.UID)
}

// started is the status that all containers have that were started at least once.
func started(pod *corev1.Pod, c *corev1.Container, restarts int32) corev1.ContainerStatus {
	i := parseImage(c.Image)
	return corev1.ContainerStatus{
		Name: c.Name, RestartCount: restarts, Started: new(false),
		Image: i.String(), ImageID: i.id(), ContainerID: containerID(pod, c, restarts),
		Resources: c.Resources.DeepCopy(), AllocatedResources: c.Resources.Requests.DeepCopy(), VolumeMounts: mounts(c),
	}
}

func containerID(pod *corev1.Pod, c *corev1.Container, restarts int32) string {
	return "containerd://" + hash(fmt.Sprintf("%s/%s/%d", pod.UID, c.Name, restarts))
}

func mounts(c *corev1.Container) []corev1.VolumeMountStatus {
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

// initialized says whether the containers after this init container may start.
func initialized(c *corev1.Container, s *corev1.ContainerStatus) bool {
	if isSidecar(c) {
		return s.Started != nil && *s.Started
	}
	return s.Ready
}

func succeeded(s *corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}

func named(name string) func(corev1.ContainerStatus) bool {
	return func(s corev1.ContainerStatus) bool { return s.Name == name }
}

// startReason is what a container says that has not been tried yet.
func startReason(pod *corev1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return reasonPodInitializing
	}
	return reasonContainerCreating
}

// seconds is the precision of times in the API.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
