package report

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// redactingClient reads pods and events without what programs wrote: a container's last words and the
// output of probes may be anything, secrets included. So they never get into an explanation.
type redactingClient struct{ client.Client }

func (q redactingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := q.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	switch l := list.(type) {
	case *corev1.PodList:
		for i := range l.Items {
			redactPod(&l.Items[i])
		}
	case *corev1.EventList:
		for i := range l.Items {
			redactEvent(&l.Items[i])
		}
	}
	return nil
}

func (q redactingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := q.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		redactPod(o)
	case *corev1.Event:
		redactEvent(o)
	}
	return nil
}

// containerRuntimeReasons are those of containers that never ran: the runtime wrote then, not a program.
var containerRuntimeReasons = map[string]bool{"StartError": true, "ContainerCannotRun": true, "RunContainerError": true}

func redactPod(pod *corev1.Pod) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			for _, terminated := range []*corev1.ContainerStateTerminated{statuses[i].State.Terminated, statuses[i].LastTerminationState.Terminated} {
				if terminated != nil && terminated.Message != "" && !containerRuntimeReasons[terminated.Reason] {
					terminated.Message = omittedOutput(terminated.Message)
				}
			}
		}
	}
}

var (
	// programOutputReasons are the events that repeat what a program wrote.
	programOutputReasons = map[string]bool{"Unhealthy": true, "ProbeWarning": true, "FailedPostStartHook": true, "FailedPreStopHook": true}
	// kubeletProbeMessage is what kubelet itself says about a probe.
	kubeletProbeMessage = regexp.MustCompile(`^(Readiness|Liveness|Startup) probe (failed|errored)[^:]*: (HTTP probe failed|Get "|dial |timeout|context |service unhealthy|command timed out|rpc error)`)
	probePrefix         = regexp.MustCompile(`^(Readiness|Liveness|Startup) probe (failed|errored|warning)[^:]*: `)
)

func redactEvent(e *corev1.Event) {
	if !programOutputReasons[e.Reason] || kubeletProbeMessage.MatchString(e.Message) {
		return
	}
	prefix := probePrefix.FindString(e.Message)
	e.Message = prefix + omittedOutput(e.Message[len(prefix):])
}

func omittedOutput(text string) string {
	return fmt.Sprintf("(left out: %d bytes that a program wrote; --logs includes them)", len(text))
}
