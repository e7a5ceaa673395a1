package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// projectedLabels is the maximum number of labels of a projected pod.
const projectedLabels = 3

// isProjectedLabel reports whether a label is needed to find a pod or its workload.
func isProjectedLabel(name string) bool {
	return name == appsapi.LabelManagedBy || name == appsapi.LabelInstance || appsapi.IsWorkloadLabel(name)
}

// ProjectPod returns a copy of a pod with only the fields that [Explain] and the health check read.
// Most pods in a cache are ready, so ready pods keep almost nothing.
func ProjectPod(pod *corev1.Pod) *corev1.Pod {
	if pod == nil {
		return nil
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			// Caches compare it to detect changes.
			ResourceVersion:   pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp.DeepCopy(),
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason},
	}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		p.DeletionGracePeriodSeconds = new(*grace)
	}
	for name, value := range pod.Labels {
		if !isProjectedLabel(name) {
			continue
		}
		metav1.SetMetaDataLabel(&p.ObjectMeta, name, value)
		if appsapi.IsWorkloadLabel(name) && strings.HasPrefix(value, "statefulset-") {
			p.Status.PodIP = pod.Status.PodIP // the operator connects to databases
		}
	}
	if hasFailed(pod) {
		p.Status.Message = strings.Clone(plaintext.Line(pod.Status.Message, maxEvidence))
	}
	if isInactive(pod) {
		p.Spec.NodeName, p.Finalizers = pod.Spec.NodeName, slices.Clone(pod.Finalizers)
		p.Status.Conditions = projectConditions(pod, corev1.ContainersReady, corev1.PodReady, corev1.DisruptionTarget)
		return p
	}
	if isReady(pod) && !hasRestarted(pod) && !hasFailed(pod) {
		p.Status.Conditions = projectConditions(pod, corev1.PodReady)
		return p
	}
	kinds := []corev1.PodConditionType{corev1.PodScheduled, corev1.ContainersReady, corev1.PodReady}
	for _, gate := range pod.Spec.ReadinessGates {
		kinds = append(kinds, gate.ConditionType)
	}
	p.Status.Conditions = projectConditions(pod, kinds...)
	p.Spec = projectSpec(&pod.Spec)
	p.Status.InitContainerStatuses = projectStatuses(pod.Status.InitContainerStatuses)
	p.Status.ContainerStatuses = projectStatuses(pod.Status.ContainerStatuses)
	return p
}

func projectConditions(pod *corev1.Pod, kinds ...corev1.PodConditionType) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, kind := range kinds {
		c := podCondition(pod, kind)
		if c == nil {
			continue
		}
		kept := corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
		switch {
		case kind == corev1.PodScheduled && c.Status == corev1.ConditionFalse, kind == corev1.DisruptionTarget:
			kept.Reason, kept.Message = c.Reason, cloneText(c.Message)
		case kind == corev1.PodReady && c.Status == corev1.ConditionFalse:
			kept.Reason = c.Reason
		}
		all = append(all, kept)
	}
	return all
}

func projectSpec(s *corev1.PodSpec) corev1.PodSpec {
	kept := corev1.PodSpec{
		InitContainers:   projectContainers(s.InitContainers),
		Containers:       projectContainers(s.Containers),
		ImagePullSecrets: append([]corev1.LocalObjectReference(nil), s.ImagePullSecrets...),
		Overhead:         s.Overhead.DeepCopy(),
		NodeName:         s.NodeName,
		ReadinessGates:   slices.Clone(s.ReadinessGates),
		SchedulingGates:  slices.Clone(s.SchedulingGates),
		Volumes:          projectVolumes(s.Volumes),
	}
	if s.Resources != nil {
		kept.Resources = &corev1.ResourceRequirements{Requests: s.Resources.Requests.DeepCopy()}
	}
	return kept
}

// projectVolumes keeps the volumes whose source can be missing.
func projectVolumes(all []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range all {
		v := &all[i]
		k := corev1.Volume{Name: v.Name}
		switch {
		case v.PersistentVolumeClaim != nil:
			k.PersistentVolumeClaim = v.PersistentVolumeClaim.DeepCopy()
		case v.Ephemeral != nil:
			k.Ephemeral = &corev1.EphemeralVolumeSource{}
		case v.Secret != nil:
			k.Secret = v.Secret.DeepCopy()
		case v.ConfigMap != nil:
			k.ConfigMap = v.ConfigMap.DeepCopy()
		default:
			continue
		}
		kept = append(kept, k)
	}
	return kept
}

// projectContainers keeps all containers in their order: field paths contain their index.
func projectContainers(all []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range all {
		c := &all[i]
		k := corev1.Container{Name: c.Name, Image: c.Image, ReadinessProbe: projectProbe(c.ReadinessProbe),
			LivenessProbe: projectProbe(c.LivenessProbe), StartupProbe: projectProbe(c.StartupProbe)}
		if isSidecar(c) {
			k.RestartPolicy = new(*c.RestartPolicy)
		}
		k.Resources.Requests = c.Resources.Requests.DeepCopy()
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
			k.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: limit.DeepCopy()}
		}
		kept = append(kept, k)
	}
	return kept
}

// projectProbe keeps the target of a probe, without headers and commands.
func projectProbe(p *corev1.Probe) *corev1.Probe {
	if p == nil {
		return nil
	}
	k := &corev1.Probe{InitialDelaySeconds: p.InitialDelaySeconds, PeriodSeconds: p.PeriodSeconds, FailureThreshold: p.FailureThreshold}
	switch {
	case p.HTTPGet != nil:
		k.HTTPGet = &corev1.HTTPGetAction{Path: strings.Clone(probePath(p.HTTPGet)), Port: p.HTTPGet.Port}
	case p.TCPSocket != nil:
		k.TCPSocket = &corev1.TCPSocketAction{Port: p.TCPSocket.Port}
	case p.GRPC != nil:
		k.GRPC = &corev1.GRPCAction{Port: p.GRPC.Port}
	case p.Exec != nil:
		k.Exec = &corev1.ExecAction{}
	}
	return k
}

func projectStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range all {
		s := &all[i]
		k := corev1.ContainerStatus{
			Name: s.Name, Image: s.Image, Ready: s.Ready, RestartCount: s.RestartCount,
			State:                corev1.ContainerState{Running: s.State.Running.DeepCopy(), Terminated: projectTermination(s.State.Terminated)},
			LastTerminationState: corev1.ContainerState{Terminated: projectTermination(s.LastTerminationState.Terminated)},
		}
		if s.Started != nil {
			k.Started = new(*s.Started)
		}
		if w := s.State.Waiting; w != nil {
			k.State.Waiting = &corev1.ContainerStateWaiting{Reason: w.Reason, Message: cloneText(w.Message)}
		}
		kept = append(kept, k)
	}
	return kept
}

func projectTermination(t *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if t == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: t.ExitCode, Reason: t.Reason, FinishedAt: t.FinishedAt, Message: strings.Clone(lastLine(t.Message)),
	}
}

// cloneText copies the sanitized text: a substring would keep the whole text in memory.
func cloneText(s string) string { return strings.Clone(plaintext.Line(s, maxText)) }
