package podsim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// sync does the next step for a pod and returns when to sync again; zero means on the next change.
func (s *Simulator) sync(ctx context.Context, key string) (time.Duration, error) {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		return 0, err
	}
	pod, err := s.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil // deleted
	}
	if err != nil {
		return 0, err
	}
	switch {
	case pod.Spec.NodeName == "" && s.schedulesPods:
		return 0, s.schedule(ctx, pod)
	case pod.Spec.NodeName != s.node:
		return 0, nil
	case pod.DeletionTimestamp != nil:
		return s.terminate(ctx, pod)
	case isTerminal(pod.Status.Phase):
		return 0, nil
	}
	return s.syncRunning(ctx, pod)
}

// schedule binds a pod, or reports why it does not fit.
func (s *Simulator) schedule(ctx context.Context, pod *corev1.Pod) error {
	schedulable := pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
	if !schedulable || pod.DeletionTimestamp != nil {
		return nil
	}
	if b := s.behaviorFor(pod); b.kind == kindUnschedulable {
		_, err := s.updateStatus(ctx, pod, unscheduledStatus(pod, b.message, s.now()))
		return err
	}
	err := s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: s.node},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // deleted meanwhile
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// syncRunning writes the status of the pod's behavior.
func (s *Simulator) syncRunning(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	r := s.stateOf(pod)
	now := s.now()
	if b := s.behaviorFor(pod); r.activeBehavior == nil || r.Behavior != b {
		r.activeBehavior = s.startBehavior(pod, r, b, now)
	}
	status, next := runningPodStatus(pod, r.activeBehavior, now)
	written, err := s.updateStatus(ctx, pod, status)
	if err != nil {
		return 0, err
	}
	r.lastWritten = written
	return next, nil
}

// startBehavior starts a behavior from the current status of the pod.
func (s *Simulator) startBehavior(pod *corev1.Pod, r *podState, b Behavior, now time.Time) *activeBehavior {
	before := newer(pod, r.lastWritten).Status
	a := &activeBehavior{Behavior: b, since: now, hostIP: nodeIP, podIP: before.PodIP}
	a.previous = slices.Concat(before.InitContainerStatuses, before.ContainerStatuses)
	switch {
	case pod.Spec.HostNetwork:
		a.podIP = nodeIP
	case a.podIP == "" && r.activeBehavior != nil:
		a.podIP = r.podIP // allocated, but not used yet
	case a.podIP == "":
		a.podIP = s.ips.allocate()
	}
	return a
}

// newer returns the last written pod if the cache does not have it yet.
func newer(cached, written *corev1.Pod) *corev1.Pod {
	if written == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion); err == nil && order >= 0 {
		return cached
	}
	return written
}

// terminate terminates a deleted pod: first its final status, then the object.
func (s *Simulator) terminate(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	r, now := s.stateOf(pod), s.now()
	if r.deletionSeenAt.IsZero() {
		r.deletionSeenAt = now
	}
	delay := min(s.terminationDelay, time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)
	if remaining := delay - now.Sub(r.deletionSeenAt); remaining > 0 {
		return remaining, nil
	}
	if !isTerminal(pod.Status.Phase) {
		if _, err := s.updateStatus(ctx, pod, finalPodStatus(pod, now)); err != nil {
			return 0, err
		}
	}
	if *pod.DeletionGracePeriodSeconds == 0 {
		return 0, nil // already terminated; a finalizer blocks the deletion
	}
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) { // already deleted
		return 0, fmt.Errorf("force delete: %w", err)
	}
	return 0, nil
}

// updateStatus writes a changed status and returns the updated pod. The resourceVersion of the cached pod is a
// precondition, so that decisions on stale data are rejected.
func (s *Simulator) updateStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) (*corev1.Pod, error) {
	if apiequality.Semantic.DeepEqual(pod.Status, status) {
		return pod, nil
	}
	pod = pod.DeepCopy()
	pod.Status = status
	written, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return pod, nil // deleted meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("update status: %w", err)
	}
	return written, nil
}

func (s *Simulator) stateOf(pod *corev1.Pod) *podState {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.podStates[pod.UID]
	if !ok {
		r = &podState{}
		s.podStates[pod.UID] = r
	}
	return r
}

// behaviorFor returns the behavior of a pod. A behavior that is not possible for a scheduled pod is replaced by the
// default.
func (s *Simulator) behaviorFor(pod *corev1.Pod) Behavior {
	s.mu.Lock()
	behaviorOf := s.behaviorOf
	s.mu.Unlock()
	b := chooseBehavior(pod, behaviorOf)
	if b.kind == kindUnschedulable && pod.Spec.NodeName != "" {
		return defaultBehavior(pod)
	}
	return b
}
