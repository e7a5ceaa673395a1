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

// sync does the next thing for a pod and says when to look again; zero means when it
// has changed.
func (s *Simulator) sync(ctx context.Context, key string) (time.Duration, error) {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		return 0, err
	}
	pod, err := s.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil // gone, as it should be
	}
	if err != nil {
		return 0, err
	}
	switch {
	case pod.Spec.NodeName == "" && s.schedules:
		return 0, s.schedule(ctx, pod)
	case pod.Spec.NodeName != s.node:
		return 0, nil
	case pod.DeletionTimestamp != nil:
		return s.end(ctx, pod)
	case isTerminal(pod.Status.Phase):
		return 0, nil
	}
	return s.run(ctx, pod)
}

// schedule places a pod, or says why not.
func (s *Simulator) schedule(ctx context.Context, pod *corev1.Pod) error {
	forUs := pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
	if !forUs || pod.DeletionTimestamp != nil {
		return nil
	}
	if b := s.choose(pod); b.kind == unschedulable {
		_, err := s.write(ctx, pod, unscheduledStatus(pod, b.text, s.now()))
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

// run writes what the pod's act says.
func (s *Simulator) run(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	r := s.roleOf(pod)
	now := s.now()
	if b := s.choose(pod); r.act == nil || r.Behavior != b {
		r.act = s.begin(pod, r, b, now)
	}
	status, next := statusOf(pod, r.act, now)
	written, err := s.write(ctx, pod, status)
	if err != nil {
		return 0, err
	}
	r.written = written
	return next, nil
}

// begin starts an act where the pod stands.
func (s *Simulator) begin(pod *corev1.Pod, r *role, b Behavior, now time.Time) *act {
	before := newer(pod, r.written).Status
	a := &act{Behavior: b, since: now, hostIP: nodeIP, podIP: before.PodIP}
	a.before = slices.Concat(before.InitContainerStatuses, before.ContainerStatuses)
	switch {
	case pod.Spec.HostNetwork:
		a.podIP = nodeIP
	case a.podIP == "" && r.act != nil:
		a.podIP = r.podIP // given, but not used yet
	case a.podIP == "":
		a.podIP = s.ips.take()
	}
	return a
}

// newer returns what we wrote last if the cache has not seen it yet.
func newer(cached, written *corev1.Pod) *corev1.Pod {
	if written == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion); err == nil && order >= 0 {
		return cached
	}
	return written
}

// end lets a deleted pod go: first its last status, then the object.
func (s *Simulator) end(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	r, now := s.roleOf(pod), s.now()
	if r.leaving.IsZero() {
		r.leaving = now
	}
	takes := min(s.termination, time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second)
	if left := takes - now.Sub(r.leaving); left > 0 {
		return left, nil
	}
	if !isTerminal(pod.Status.Phase) {
		if _, err := s.write(ctx, pod, endOf(pod, now)); err != nil {
			return 0, err
		}
	}
	if *pod.DeletionGracePeriodSeconds == 0 {
		return 0, nil // it is let go already; a finalizer of somebody else holds it
	}
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) { // already gone
		return 0, fmt.Errorf("delete for good: %w", err)
	}
	return 0, nil
}

// write writes a status if it differs from the one there is, and returns the pod as it
// is then. The resourceVersion of the cached pod goes along, so that a decision on old
// news is refused.
func (s *Simulator) write(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) (*corev1.Pod, error) {
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

func (s *Simulator) roleOf(pod *corev1.Pod) *role {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.roles[pod.UID]
	if !ok {
		r = &role{}
		s.roles[pod.UID] = r
	}
	return r
}

// choose asks for the behavior of a pod. One that cannot be played on a placed pod is
// replaced by the usual.
func (s *Simulator) choose(pod *corev1.Pod) Behavior {
	s.mu.Lock()
	play := s.play
	s.mu.Unlock()
	b := choose(pod, play)
	if b.kind == unschedulable && pod.Spec.NodeName != "" {
		return usualBehavior(pod)
	}
	return b
}
