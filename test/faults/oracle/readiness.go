package oracle

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// ReadinessViolations returns every time at which an application reported Ready with a spec that was never ready.
func ReadinessViolations(timeline Timeline) []string {
	type specVersion struct {
		uid        types.UID
		generation int64
	}
	wasReady := map[specVersion]bool{}
	reported := map[specVersion]bool{}
	state := clusterState{}
	var violations []string
	for _, e := range timeline {
		state.applyEvent(e)
		for _, o := range state {
			p := specVersion{o.GetUID(), o.GetGeneration()}
			if wasReady[p] {
				continue
			}
			if app, ok := applicationOf(o); ok {
				wasReady[p] = state.isReady(app)
			}
		}
		app, ok := applicationOf(e.Object)
		if !ok {
			continue
		}
		ready := meta.FindStatusCondition(app.status.Conditions, "Ready")
		p := specVersion{app.object.GetUID(), app.status.ObservedGeneration}
		if ready == nil || ready.Status != "True" || ready.ObservedGeneration != p.generation || reported[p] || wasReady[p] {
			continue
		}
		reported[p] = true
		violations = append(violations, fmt.Sprintf("%s %s reported Ready at %s with generation %d, but was never ready",
			app.object.GetKind(), app.object.GetName(), e.ResourceVersion, p.generation))
	}
	return violations
}

// isReady reports whether all components run as specified.
func (t clusterState) isReady(app application) bool {
	for _, p := range app.components {
		if p.service != nil && !t.deploymentReady(app, p) || p.stateful != nil && !t.statefulSetReady(app, p) || p.job != nil && p.job.Schedule == "" && !t.jobSucceeded(app, p) {
			return false
		}
	}
	return true
}

func (t clusterState) deploymentReady(app application, p componentSpec) bool {
	o := t[objectKey("Deployment", p.resourceName)]
	if o == nil || controllerOf(o).UID != app.object.GetUID() {
		return false
	}
	d := fromUnstructured[appsv1.Deployment](o)
	replicas := *d.Spec.Replicas
	if p.service.Replicas != nil && *p.service.Replicas != replicas {
		return false
	}
	return imageOf(d.Spec.Template.Spec) == p.service.Image && d.Status.ObservedGeneration == d.Generation &&
		d.Status.UpdatedReplicas == replicas && d.Status.ReadyReplicas == replicas && d.Status.Replicas == replicas
}

// statefulSetReady reports whether a component runs with volumes of the specified size.
func (t clusterState) statefulSetReady(app application, p componentSpec) bool {
	for _, o := range t {
		if o.GetKind() != "StatefulSet" || !p.owns(o) || controllerOf(o).UID != app.object.GetUID() {
			continue
		}
		s := fromUnstructured[appsv1.StatefulSet](o)
		replicas := *s.Spec.Replicas
		if p.stateful.Replicas != nil && *p.stateful.Replicas != replicas {
			return false
		}
		for i := range replicas {
			for _, volume := range p.stateful.Storage {
				claim := t[objectKey("PersistentVolumeClaim", fmt.Sprintf("%s-%s-%d", volume.Name, s.Name, i))]
				if claim == nil {
					return false
				}
				// Simulated pods do not wait for their volume, unlike real ones.
				if capacity := fromUnstructured[corev1.PersistentVolumeClaim](claim).Status.Capacity[corev1.ResourceStorage]; !capacity.IsZero() && capacity.Cmp(volume.Size) < 0 {
					return false
				}
			}
		}
		return imageOf(s.Spec.Template.Spec) == p.stateful.Image && s.Status.ObservedGeneration == s.Generation &&
			s.Status.UpdatedReplicas == replicas && s.Status.ReadyReplicas == replicas && s.Status.Replicas == replicas
	}
	return false
}

func (t clusterState) jobSucceeded(app application, p componentSpec) bool {
	for _, o := range t {
		if o.GetKind() != "Job" || controllerOf(o).UID != app.object.GetUID() || o.GetLabels()[appsapi.LabelComponent] != p.component {
			continue
		}
		j := fromUnstructured[batchv1.Job](o)
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && imageOf(j.Spec.Template.Spec) == p.job.Image &&
				encodeArgs(j.Spec.Template.Spec.Containers[0].Args) == encodeArgs(p.job.Args) {
				return true
			}
		}
	}
	return false
}

func imageOf(pod corev1.PodSpec) string { return pod.Containers[0].Image }

func encodeArgs(v []string) string {
	content, _ := json.Marshal(v) // strings can always be encoded
	return string(content)
}
