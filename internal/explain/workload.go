package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// Reasons of controllers that have no constant in the API.
const (
	reasonFailedCreate = "FailedCreate"
	reasonDeadline     = "ProgressDeadlineExceeded"
)

// observeGrace is how long a controller can take to observe a change.
const observeGrace = 15 * time.Second

// rejectionWindow is how long a FailedCreate event counts: controllers back off for up to 15 minutes.
const rejectionWindow = 20 * time.Minute

// checkWorkload checks the workload itself: why pods are missing, and whether it is paused or scaled to zero.
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
			Message: fmt.Sprintf("Deployment %s is paused, so changes are not rolled out to its pods", d.Name),
			Fix:     fmt.Sprintf("Resume it: kubectl rollout resume -n %s deployment/%s", d.Namespace, d.Name),
		})
	}
	e.addScaledToZero(o, d.Spec.Replicas, d.CreationTimestamp.Time)
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		e.addPodsRejected(o, `status.conditions[?(@.type=="ReplicaFailure")]`, c.Message, c.LastTransitionTime.Time)
	}
}

// addPodsRejected reports a workload whose pods the API server rejects.
func (e *explainer) addPodsRejected(o ObjectRef, path, message string, since time.Time) {
	c := podsRejectedCause(o, message)
	c.Path, c.Since = path, since
	e.addCause(o, c.Value+" "+o.Name, c)
}

// checkMissingPods checks a workload that lacks pods and has no condition that explains it: only its
// events do.
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
		return // pods are created and updated in parallel
	}
	e.checkUpdateBlocked(o, s)
}

// checkDaemonSet checks a DaemonSet.
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

// checkReplicaSet checks a ReplicaSet without a Deployment.
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

// newestCreation returns when the newest pod was created, or the workload itself if that is later.
func newestCreation(at metav1.Time, pods []*corev1.Pod) time.Time {
	for _, p := range pods {
		if p != nil && at.Time.Before(p.CreationTimestamp.Time) {
			at = p.CreationTimestamp
		}
	}
	return at.Time
}

// checkUpdateBlocked reports a pod of the previous revision that is not ready: a rolling update of a
// StatefulSet waits until it is ready before replacing it.
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
			Message: fmt.Sprintf("The rollout of %s is blocked: Pod %s of the previous revision must become ready before it is replaced", o, p.Name),
			Fix:     fmt.Sprintf("Delete the pod (its volumes are kept): kubectl delete pod -n %s %s", p.Namespace, p.Name),
		})
	}
}

// checkOrdinal reports the pod that a StatefulSet waits for before it creates the next one, if the
// status of that pod does not explain why it is not ready.
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
		if p.DeletionTimestamp != nil {
			return // the StatefulSet waits until the pod has terminated, not until it is ready
		}
		if end := p.CreationTimestamp.Add(time.Minute); e.now.Before(end) {
			e.scheduleRecheck(end)
			return
		}
		e.addPodCause(p, p.Name, Cause{
			Code: OrdinalBlocked, Path: `status.conditions[?(@.type=="Ready")]`, Since: falseSince(p, corev1.PodReady),
			Message: fmt.Sprintf("Pod %s must become ready before StatefulSet %s creates the next one", p.Name, s.Name),
			Fix:     "Check why the pod is not ready: " + describePodCommand(p),
		})
		return
	}
}

func podOrdinal(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
	return n
}

// addScaledToZero reports a workload with spec.replicas 0.
func (e *explainer) addScaledToZero(o ObjectRef, replicas *int32, since time.Time) {
	if replicas != nil && *replicas == 0 {
		e.addCause(o, o.Name, Cause{
			Code: ScaledToZero, Path: "spec.replicas", Value: "0", Since: since,
			Message: fmt.Sprintf("%s is scaled to zero replicas", o),
			Fix:     "Set spec.replicas of the application to 1 or more.",
		})
	}
}

// checkObserved reports a workload whose controller has not observed the latest generation. The time
// of the change comes from managedFields; without them, the age of the change is unknown.
func (e *explainer) checkObserved(o ObjectRef, obj metav1.Object, observed int64) {
	c, recheckAt := UnobservedCause(o, obj, observed, e.now)
	if !recheckAt.IsZero() {
		e.scheduleRecheck(recheckAt)
	}
	if c.Code != "" {
		c.Fix = "Check the logs of kube-controller-manager, and check that the API server is healthy: kubectl get --raw /livez?verbose"
		e.addCause(o, o.Name, c)
	}
}

// UnobservedCause returns the cause if the controller of an object did not observe its latest
// generation within the grace period. Within the grace period, recheckAt is its end.
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
		Message: fmt.Sprintf("The controller of %s has not observed its latest change", o),
	}, time.Time{}
}

// lastSpecChange returns the time of the latest managedFields entry that is not for a subresource, or
// the creation time.
func lastSpecChange(obj metav1.Object) time.Time {
	at := obj.GetCreationTimestamp().Time
	for _, m := range obj.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// checkProgress reports a workload that does not progress, if no root cause was found.
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
		Message:  fmt.Sprintf("The rollout of %s made no progress within its progress deadline%s", o, limit),
		Fix:      fmt.Sprintf("Check the newest pods of the Deployment; for details: kubectl describe deployment -n %s %s", d.Namespace, d.Name),
		Evidence: evidence(c.Message),
	})
}

// missingRequestPattern matches the message of an autoscaler about pods without a request.
var missingRequestPattern = regexp.MustCompile(`missing request for (cpu|memory)\b`)

// checkAutoscaler reports a HorizontalPodAutoscaler that cannot read its metrics.
func (e *explainer) checkAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	for _, c := range a.Status.Conditions {
		inactive := c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" ||
			c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionFalse && strings.HasPrefix(c.Reason, "Failed")
		if !inactive || e.now.Before(c.LastTransitionTime.Add(time.Minute)) {
			continue
		}
		o := newObjectRef("HorizontalPodAutoscaler", a)
		message, fix := "cannot read its metrics", "Check that metrics-server is running: kubectl top pods"
		if found := missingRequestPattern.FindStringSubmatch(plaintext.Line(c.Message, maxText)); found != nil {
			message = fmt.Sprintf("cannot compute the utilization of its pods, which have no %s request", found[1])
			fix = fmt.Sprintf("Set spec.resources.requests.%s of the application.", found[1])
		}
		e.addCause(o, a.Name, Cause{
			Code: AutoscalerMetricsMissing, Path: fmt.Sprintf("status.conditions[?(@.type==%q)]", c.Type), Value: plaintext.Line(c.Reason, maxEvidence/4), Since: c.LastTransitionTime.Time,
			Message: fmt.Sprintf("%s %s, so it does not scale", o, message), Fix: fix, Evidence: evidence(c.Message),
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
