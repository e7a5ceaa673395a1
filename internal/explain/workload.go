package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that controllers write and that have no constant in the API.
const (
	reasonFailedCreate = "FailedCreate"
	reasonDeadline     = "ProgressDeadlineExceeded"
)

// observeGrace is how long a controller may take to look at a change.
const observeGrace = 15 * time.Second

// rejectionWindow is how long an event tells that pods cannot be created: controllers back off
// to a quarter of an hour.
const rejectionWindow = 20 * time.Minute

// checkWorkload examines what should create the pods.
func (e *explainer) checkWorkload() {
	switch w := e.snapshot.Workload.(type) {
	case *appsv1.Deployment:
		e.checkDeployment(w)
	case *appsv1.StatefulSet:
		e.checkStatefulSet(w)
	case *appsv1.DaemonSet:
		e.checkDaemonSet(w)
	case *appsv1.ReplicaSet:
		e.checkReplicaSet(w)
	case *batchv1.Job:
		if len(e.snapshot.Pods) == 0 {
			e.checkMissingPods(newObjectRef("Job", w), w.CreationTimestamp.Time)
		}
	}
	e.checkResizes()
	for _, a := range e.snapshot.Autoscalers {
		e.checkAutoscaler(a)
	}
}

func (e *explainer) checkDeployment(d *appsv1.Deployment) {
	o := newObjectRef("Deployment", d)
	if d.DeletionTimestamp != nil {
		return
	}
	e.checkObserved(o, d, d.Status.ObservedGeneration)
	if d.Spec.Paused {
		e.addCause(o, d.Name, Cause{
			Code: Paused, Path: "spec.paused", Value: "true", Since: deploymentConditionSince(d, appsv1.DeploymentProgressing),
			Message: fmt.Sprintf("Deployment %s is paused, so no change reaches its pods", d.Name),
			Fix:     fmt.Sprintf("Let it go on: kubectl rollout resume -n %s deployment/%s", d.Namespace, d.Name),
		})
	}
	e.addScaledToZero(o, d.Spec.Replicas, d.CreationTimestamp.Time)
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		e.addPodsRejected(o, `status.conditions[?(@.type=="ReplicaFailure")]`, c.Message, c.LastTransitionTime.Time)
	}
}

// addPodsRejected is a workload whose pods the API server does not take.
func (e *explainer) addPodsRejected(o ObjectRef, path, message string, since time.Time) {
	c := podsRejectedCause(o, message)
	c.Path, c.Since = path, since
	e.addCause(o, c.Value+" "+o.Name, c)
}

// checkMissingPods is a workload that lacks pods and has no condition to say why: only its events
// do.
func (e *explainer) checkMissingPods(o ObjectRef, since time.Time) {
	if ev, ok := e.latestEvent(o, []string{reasonFailedCreate}); ok && e.now.Sub(ev.LastSeen) < rejectionWindow {
		e.addPodsRejected(o, "events", ev.Message, since)
		return
	}
	if end := since.Add(observeGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.needEvents(o)
}

func (e *explainer) checkStatefulSet(s *appsv1.StatefulSet) {
	o := newObjectRef("StatefulSet", s)
	if s.DeletionTimestamp != nil {
		return
	}
	e.checkObserved(o, s, s.Status.ObservedGeneration)
	e.addScaledToZero(o, s.Spec.Replicas, s.CreationTimestamp.Time)
	if len(e.snapshot.Pods) < e.snapshot.desiredPods() {
		e.checkMissingPods(o, newestCreation(s.CreationTimestamp, e.snapshot.Pods))
	}
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return // no pod waits for another one
	}
	e.checkUpdateBlocked(o, s)
}

// checkDaemonSet examines a set of one pod for each node.
func (e *explainer) checkDaemonSet(d *appsv1.DaemonSet) {
	if d.DeletionTimestamp != nil {
		return
	}
	o := newObjectRef("DaemonSet", d)
	e.checkObserved(o, d, d.Status.ObservedGeneration)
	if len(e.snapshot.Pods) < e.snapshot.desiredPods() {
		e.checkMissingPods(o, newestCreation(d.CreationTimestamp, e.snapshot.Pods))
	}
}

// checkReplicaSet examines a ReplicaSet that no Deployment made.
func (e *explainer) checkReplicaSet(r *appsv1.ReplicaSet) {
	if r.DeletionTimestamp != nil {
		return
	}
	o := newObjectRef("ReplicaSet", r)
	e.checkObserved(o, r, r.Status.ObservedGeneration)
	e.addScaledToZero(o, r.Spec.Replicas, r.CreationTimestamp.Time)
	for _, c := range r.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			e.addPodsRejected(o, `status.conditions[?(@.type=="ReplicaFailure")]`, c.Message, c.LastTransitionTime.Time)
		}
	}
}

// newestCreation is when the last pod was created, or the set itself.
func newestCreation(at metav1.Time, pods []*corev1.Pod) time.Time {
	for _, p := range pods {
		if p != nil && at.Time.Before(p.CreationTimestamp.Time) {
			at = p.CreationTimestamp
		}
	}
	return at.Time
}

// checkUpdateBlocked is a set whose pods are updated one after the other, and one of the
// revision before is broken: Kubernetes waits for it to become ready before it replaces it.
func (e *explainer) checkUpdateBlocked(o ObjectRef, s *appsv1.StatefulSet) {
	if s.Status.UpdateRevision == "" || s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	for _, p := range e.snapshot.Pods {
		old := p != nil && p.Labels[appsv1.ControllerRevisionHashLabelKey] != "" && p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.Status.UpdateRevision
		if !old || isInactive(p) || isReady(p) || e.now.Before(falseSince(p, corev1.PodReady).Add(minGrace)) {
			continue
		}
		e.addPodCause(p, p.Name, Cause{
			Code: UpdateBlocked, Path: "metadata.labels." + appsv1.ControllerRevisionHashLabelKey, Value: p.Labels[appsv1.ControllerRevisionHashLabelKey],
			Since:   falseSince(p, corev1.PodReady),
			Message: fmt.Sprintf("%s was changed, but its pod %s of the revision before is not ready, and is not replaced until it is", o, p.Name),
			Fix:     fmt.Sprintf("Delete the pod, which loses no data: kubectl delete pod -n %s %s", p.Namespace, p.Name),
		})
	}
}

// checkOrdinal is a set that creates its pods one after the other and waits for one that does not
// say what is wrong with it.
func (e *explainer) checkOrdinal(s *appsv1.StatefulSet) {
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || len(e.snapshot.Pods) >= e.snapshot.desiredPods() {
		return
	}
	pods := slices.Clone(e.snapshot.Pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return podOrdinal(a) - podOrdinal(b) })
	for _, p := range pods {
		if isReady(p) {
			continue
		}
		if end := p.CreationTimestamp.Add(time.Minute); e.now.Before(end) {
			e.scheduleRecheck(end)
			return
		}
		e.addPodCause(p, p.Name, Cause{
			Code: OrdinalBlocked, Path: `status.conditions[?(@.type=="Ready")]`, Since: falseSince(p, corev1.PodReady),
			Message: fmt.Sprintf("Pod %s must become ready before StatefulSet %s creates the next one", p.Name, s.Name),
			Fix:     "See what the pod waits for: " + describePodCommand(p),
		})
		return
	}
}

func podOrdinal(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
	return n
}

// addScaledToZero is a workload of which nothing runs because that is what is asked for.
func (e *explainer) addScaledToZero(o ObjectRef, replicas *int32, since time.Time) {
	if replicas != nil && *replicas == 0 {
		e.addCause(o, o.Name, Cause{
			Code: ScaledToZero, Path: "spec.replicas", Value: "0", Since: since,
			Message: fmt.Sprintf("%s is scaled to zero, as it is asked to be", o),
			Fix:     "Set spec.replicas of the application to run it.",
		})
	}
}

// checkObserved is a change that the controller of the kind has not looked at. Since when is in
// the books of the fields; who does not keep them cannot tell a change of last week from one
// of just now.
func (e *explainer) checkObserved(o ObjectRef, obj metav1.Object, observed int64) {
	c, recheckAt := UnobservedCause(o, obj, observed, e.now)
	if !recheckAt.IsZero() {
		e.scheduleRecheck(recheckAt)
	}
	if c.Code != "" {
		c.Fix = "See whether the controller manager of the cluster runs: kubectl get --raw /livez?verbose, and its log."
		e.addCause(o, o.Name, c)
	}
}

// UnobservedCause is an object of any kind whose controller has not looked at its latest change
// for too long; again is when that will be so.
func UnobservedCause(o ObjectRef, obj metav1.Object, observed int64, now time.Time) (c Cause, recheckAt time.Time) {
	if obj.GetGeneration() <= observed || len(obj.GetManagedFields()) == 0 {
		return Cause{}, time.Time{}
	}
	changed := lastSpecChange(obj)
	if end := changed.Add(observeGrace); now.Before(end) {
		return Cause{}, end
	}
	return Cause{
		Code: SpecNotObserved, Object: o, Path: "status.observedGeneration", Value: strconv.FormatInt(observed, 10), Since: changed,
		Message: fmt.Sprintf("The controller of %s has not looked at its latest change", o),
	}, time.Time{}
}

// lastSpecChange is when an object was written last by somebody who did not write its status;
// when it was created, where that is not known.
func lastSpecChange(obj metav1.Object) time.Time {
	at := obj.GetCreationTimestamp().Time
	for _, m := range obj.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// checkProgress is what is said when nothing deeper was found.
func (e *explainer) checkProgress() {
	switch w := e.snapshot.Workload.(type) {
	case *appsv1.Deployment:
		e.checkRolloutDeadline(w)
	case *appsv1.StatefulSet:
		e.checkOrdinal(w)
	}
}

func (e *explainer) checkRolloutDeadline(d *appsv1.Deployment) {
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != reasonDeadline {
		return
	}
	limit := ""
	if s := d.Spec.ProgressDeadlineSeconds; s != nil {
		limit = fmt.Sprintf(" of %d s", *s)
	}
	o := newObjectRef("Deployment", d)
	e.addCause(o, d.Name, Cause{
		Code: RolloutStuck, Path: `status.conditions[?(@.type=="Progressing")]`, Value: c.Reason, Since: c.LastTransitionTime.Time,
		Message:  fmt.Sprintf("The rollout of %s made no progress within its deadline%s", o, limit),
		Fix:      fmt.Sprintf("Look at its newest pods: kubectl describe deployment -n %s %s", d.Namespace, d.Name),
		Evidence: evidence(c.Message),
	})
}

// checkAutoscaler is one that cannot see what it decides by.
func (e *explainer) checkAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	for _, c := range a.Status.Conditions {
		inactive := c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" ||
			c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionFalse && strings.HasPrefix(c.Reason, "Failed")
		if !inactive || e.now.Before(c.LastTransitionTime.Add(time.Minute)) {
			continue
		}
		o := newObjectRef("HorizontalPodAutoscaler", a)
		e.addCause(o, a.Name, Cause{
			Code: AutoscalerMetricsMissing, Path: fmt.Sprintf("status.conditions[?(@.type==%q)]", c.Type), Value: sanitize(c.Reason, maxEvidence/4), Since: c.LastTransitionTime.Time,
			Message:  fmt.Sprintf("%s cannot read what it decides by, so the number of pods stays as it is", o),
			Fix:      "See whether a metrics server runs: kubectl top pods",
			Evidence: evidence(c.Message),
		})
		return
	}
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

func deploymentConditionSince(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) time.Time {
	if c := deploymentCondition(d, kind); c != nil {
		return c.LastTransitionTime.Time
	}
	return d.CreationTimestamp.Time
}
