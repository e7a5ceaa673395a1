package report

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// quiet reads pods and events without what programs wrote: a container's last words and the
// output of probes may be anything, secrets included. So they never get into an explanation.
type quiet struct{ client.Client }

func (q quiet) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := q.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	switch l := list.(type) {
	case *corev1.PodList:
		for i := range l.Items {
			silencePod(&l.Items[i])
		}
	case *corev1.EventList:
		for i := range l.Items {
			silenceEvent(&l.Items[i])
		}
	}
	return nil
}

func (q quiet) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := q.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		silencePod(o)
	case *corev1.Event:
		silenceEvent(o)
	}
	return nil
}

// runtimeReasons are those of containers that never ran: the runtime wrote then, not a program.
var runtimeReasons = map[string]bool{"StartError": true, "ContainerCannotRun": true, "RunContainerError": true}

func silencePod(pod *corev1.Pod) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			for _, end := range []*corev1.ContainerStateTerminated{statuses[i].State.Terminated, statuses[i].LastTerminationState.Terminated} {
				if end != nil && end.Message != "" && !runtimeReasons[end.Reason] {
					end.Message = unsaid(end.Message)
				}
			}
		}
	}
}

var (
	// fromProgram are the events that repeat what a program wrote.
	fromProgram = map[string]bool{"Unhealthy": true, "ProbeWarning": true, "FailedPostStartHook": true, "FailedPreStopHook": true}
	// fromKubelet is what kubelet itself says about a probe.
	fromKubelet = regexp.MustCompile(`^(Readiness|Liveness|Startup) probe (failed|errored)[^:]*: (HTTP probe failed|Get "|dial |timeout|context |service unhealthy|command timed out|rpc error)`)
	probe       = regexp.MustCompile(`^(Readiness|Liveness|Startup) probe (failed|errored|warning)[^:]*: `)
)

func silenceEvent(e *corev1.Event) {
	if !fromProgram[e.Reason] || fromKubelet.MatchString(e.Message) {
		return
	}
	head := probe.FindString(e.Message)
	e.Message = head + unsaid(e.Message[len(head):])
}

func unsaid(text string) string {
	return fmt.Sprintf("(left out: %d bytes that a program wrote; --logs includes them)", len(text))
}
