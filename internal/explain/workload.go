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

// unseenGrace is how long a controller may take to look at a change.
const unseenGrace = 15 * time.Second

// refusalLasts is how long an event tells that pods cannot be created: controllers back off
// to a quarter of an hour.
const refusalLasts = 20 * time.Minute

// workload examines what should create the pods.
func (e *examiner) workload() {
	switch w := e.scene.Workload.(type) {
	case *appsv1.Deployment:
		e.deployment(w)
	case *appsv1.StatefulSet:
		e.set(w)
	case *appsv1.DaemonSet:
		e.daemons(w)
	case *appsv1.ReplicaSet:
		e.replicas(w)
	case *batchv1.Job:
		if len(e.scene.Pods) == 0 {
			e.uncreated(objectOf("Job", w), w.CreationTimestamp.Time)
		}
	}
	e.resizing()
	for _, a := range e.scene.Autoscalers {
		e.autoscaler(a)
	}
}

func (e *examiner) deployment(d *appsv1.Deployment) {
	o := objectOf("Deployment", d)
	if d.DeletionTimestamp != nil {
		return
	}
	e.unseen(o, d, d.Status.ObservedGeneration)
	if d.Spec.Paused {
		e.addTo(o, d.Name, Cause{
			Code: Paused, Path: "spec.paused", Value: "true", Since: deploymentSince(d, appsv1.DeploymentProgressing),
			Sentence: fmt.Sprintf("Deployment %s is paused, so no change reaches its pods", d.Name),
			Fix:      fmt.Sprintf("Let it go on: kubectl rollout resume -n %s deployment/%s", d.Namespace, d.Name),
		})
	}
	e.zero(o, d.Spec.Replicas, d.CreationTimestamp.Time)
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		e.refused(o, `status.conditions[?(@.type=="ReplicaFailure")]`, c.Message, c.LastTransitionTime.Time)
	}
}

// refused is a workload whose pods the API server does not take.
func (e *examiner) refused(o Object, path, answer string, since time.Time) {
	c := refusedPods(o, answer)
	c.Path, c.Since = path, since
	e.addTo(o, c.Value+" "+o.Name, c)
}

// uncreated is a workload that lacks pods and has no condition to say why: only its events
// do.
func (e *examiner) uncreated(o Object, since time.Time) {
	if ev, ok := e.event(o, []string{reasonFailedCreate}); ok && e.now.Sub(ev.Last) < refusalLasts {
		e.refused(o, "events", ev.Message, since)
		return
	}
	if end := since.Add(unseenGrace); e.now.Before(end) {
		e.look(end)
		return
	}
	e.ask(o)
}

func (e *examiner) set(s *appsv1.StatefulSet) {
	o := objectOf("StatefulSet", s)
	if s.DeletionTimestamp != nil {
		return
	}
	e.unseen(o, s, s.Status.ObservedGeneration)
	e.zero(o, s.Spec.Replicas, s.CreationTimestamp.Time)
	if len(e.scene.Pods) < e.scene.wanted() {
		e.uncreated(o, newest(s.CreationTimestamp, e.scene.Pods))
	}
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return // no pod waits for another one
	}
	e.updateBlocked(o, s)
}

// daemons examines a set of one pod for each node.
func (e *examiner) daemons(d *appsv1.DaemonSet) {
	if d.DeletionTimestamp != nil {
		return
	}
	o := objectOf("DaemonSet", d)
	e.unseen(o, d, d.Status.ObservedGeneration)
	if len(e.scene.Pods) < e.scene.wanted() {
		e.uncreated(o, newest(d.CreationTimestamp, e.scene.Pods))
	}
}

// replicas examines a ReplicaSet that no Deployment made.
func (e *examiner) replicas(r *appsv1.ReplicaSet) {
	if r.DeletionTimestamp != nil {
		return
	}
	o := objectOf("ReplicaSet", r)
	e.unseen(o, r, r.Status.ObservedGeneration)
	e.zero(o, r.Spec.Replicas, r.CreationTimestamp.Time)
	for _, c := range r.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			e.refused(o, `status.conditions[?(@.type=="ReplicaFailure")]`, c.Message, c.LastTransitionTime.Time)
		}
	}
}

// newest is when the last pod was created, or the set itself.
func newest(at metav1.Time, pods []*corev1.Pod) time.Time {
	for _, p := range pods {
		if p != nil && at.Time.Before(p.CreationTimestamp.Time) {
			at = p.CreationTimestamp
		}
	}
	return at.Time
}

// updateBlocked is a set whose pods are updated one after the other, and one of the
// revision before is broken: Kubernetes waits for it to become ready before it replaces it.
func (e *examiner) updateBlocked(o Object, s *appsv1.StatefulSet) {
	if s.Status.UpdateRevision == "" || s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	for _, p := range e.scene.Pods {
		old := p != nil && p.Labels[appsv1.ControllerRevisionHashLabelKey] != "" && p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.Status.UpdateRevision
		if !old || isOver(p) || isReady(p) || e.now.Before(since(p, corev1.PodReady).Add(minSilence)) {
			continue
		}
		e.add(p, p.Name, Cause{
			Code: UpdateBlocked, Path: "metadata.labels." + appsv1.ControllerRevisionHashLabelKey, Value: p.Labels[appsv1.ControllerRevisionHashLabelKey],
			Since:    since(p, corev1.PodReady),
			Sentence: fmt.Sprintf("%s was changed, but its pod %s of the revision before is not ready, and is not replaced until it is", o, p.Name),
			Fix:      fmt.Sprintf("Delete the pod, which loses no data: kubectl delete pod -n %s %s", p.Namespace, p.Name),
		})
	}
}

// ordinal is a set that creates its pods one after the other and waits for one that does not
// say what is wrong with it.
func (e *examiner) ordinal(s *appsv1.StatefulSet) {
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || len(e.scene.Pods) >= e.scene.wanted() {
		return
	}
	pods := slices.Clone(e.scene.Pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return ordinalOf(a) - ordinalOf(b) })
	for _, p := range pods {
		if isReady(p) {
			continue
		}
		if end := p.CreationTimestamp.Add(time.Minute); e.now.Before(end) {
			e.look(end)
			return
		}
		e.add(p, p.Name, Cause{
			Code: OrdinalBlocked, Path: `status.conditions[?(@.type=="Ready")]`, Since: since(p, corev1.PodReady),
			Sentence: fmt.Sprintf("Pod %s must become ready before StatefulSet %s creates the next one", p.Name, s.Name),
			Fix:      "See what the pod waits for: " + lookUp(p),
		})
		return
	}
}

func ordinalOf(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
	return n
}

// zero is a workload of which nothing runs because that is what is asked for.
func (e *examiner) zero(o Object, replicas *int32, since time.Time) {
	if replicas != nil && *replicas == 0 {
		e.addTo(o, o.Name, Cause{
			Code: ScaledToZero, Path: "spec.replicas", Value: "0", Since: since,
			Sentence: fmt.Sprintf("%s is scaled to zero, as it is asked to be", o),
			Fix:      "Set spec.replicas of the application to run it.",
		})
	}
}

// unseen is a change that the controller of the kind has not looked at. Since when is in
// the books of the fields; who does not keep them cannot tell a change of last week from one
// of just now.
func (e *examiner) unseen(o Object, obj metav1.Object, observed int64) {
	c, again := Unobserved(o, obj, observed, e.now)
	if !again.IsZero() {
		e.look(again)
	}
	if c.Code != "" {
		c.Fix = "See whether the controller manager of the cluster runs: kubectl get --raw /livez?verbose, and its log."
		e.addTo(o, o.Name, c)
	}
}

// Unobserved is an object of any kind whose controller has not looked at its latest change
// for too long; again is when that will be so.
func Unobserved(o Object, obj metav1.Object, observed int64, now time.Time) (c Cause, again time.Time) {
	if obj.GetGeneration() <= observed || len(obj.GetManagedFields()) == 0 {
		return Cause{}, time.Time{}
	}
	changed := lastChange(obj)
	if end := changed.Add(unseenGrace); now.Before(end) {
		return Cause{}, end
	}
	return Cause{
		Code: SpecNotObserved, Object: o, Path: "status.observedGeneration", Value: strconv.FormatInt(observed, 10), Since: changed,
		Sentence: fmt.Sprintf("The controller of %s has not looked at its latest change", o),
	}, time.Time{}
}

// lastChange is when an object was written last by somebody who did not write its status;
// when it was created, where that is not known.
func lastChange(obj metav1.Object) time.Time {
	at := obj.GetCreationTimestamp().Time
	for _, m := range obj.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// slow is what is said when nothing deeper was found.
func (e *examiner) slow() {
	switch w := e.scene.Workload.(type) {
	case *appsv1.Deployment:
		e.stuck(w)
	case *appsv1.StatefulSet:
		e.ordinal(w)
	}
}

func (e *examiner) stuck(d *appsv1.Deployment) {
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != reasonDeadline {
		return
	}
	limit := ""
	if s := d.Spec.ProgressDeadlineSeconds; s != nil {
		limit = fmt.Sprintf(" of %d s", *s)
	}
	o := objectOf("Deployment", d)
	e.addTo(o, d.Name, Cause{
		Code: RolloutStuck, Path: `status.conditions[?(@.type=="Progressing")]`, Value: c.Reason, Since: c.LastTransitionTime.Time,
		Sentence: fmt.Sprintf("The rollout of %s made no progress within its deadline%s", o, limit),
		Fix:      fmt.Sprintf("Look at its newest pods: kubectl describe deployment -n %s %s", d.Namespace, d.Name),
		Evidence: evidence(c.Message),
	})
}

// autoscaler is one that cannot see what it decides by.
func (e *examiner) autoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	for _, c := range a.Status.Conditions {
		blind := c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" ||
			c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionFalse && strings.HasPrefix(c.Reason, "Failed")
		if !blind || e.now.Before(c.LastTransitionTime.Add(time.Minute)) {
			continue
		}
		o := objectOf("HorizontalPodAutoscaler", a)
		e.addTo(o, a.Name, Cause{
			Code: AutoscalerBlind, Path: fmt.Sprintf("status.conditions[?(@.type==%q)]", c.Type), Value: plain(c.Reason, maxEvidence/4), Since: c.LastTransitionTime.Time,
			Sentence: fmt.Sprintf("%s cannot read what it decides by, so the number of pods stays as it is", o),
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

func deploymentSince(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) time.Time {
	if c := deploymentCondition(d, kind); c != nil {
		return c.LastTransitionTime.Time
	}
	return d.CreationTimestamp.Time
}
