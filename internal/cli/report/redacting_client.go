package report

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// redactingClient removes program output from pods and events: termination messages and probe output can
// contain secrets, and must not appear in explanations.
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

// containerRuntimeReasons are reasons whose message is from the container runtime, not from a program.
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
	// programOutputReasons are the reasons of events that contain program output.
	programOutputReasons = map[string]bool{"Unhealthy": true, "ProbeWarning": true, "FailedPostStartHook": true, "FailedPreStopHook": true}
	// kubeletProbeMessage matches probe messages of the kubelet that contain no program output.
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
	return fmt.Sprintf("(omitted: %d bytes of program output; use --logs to include them)", len(text))
}
