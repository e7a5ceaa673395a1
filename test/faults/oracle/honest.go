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

// Honesty finds every moment at which an application said that it is ready with a spec that
// it never was ready with.
func Honesty(timeline Timeline) []string {
	type promise struct {
		uid        types.UID
		generation int64
	}
	kept := map[promise]bool{}
	told := map[promise]bool{}
	state := truth{}
	var lines []string
	for _, e := range timeline {
		state.after(e)
		for _, o := range state {
			p := promise{o.GetUID(), o.GetGeneration()}
			if kept[p] {
				continue
			}
			if app, ok := applicationOf(o); ok {
				kept[p] = state.ready(app)
			}
		}
		app, ok := applicationOf(e.Object)
		if !ok {
			continue
		}
		ready := meta.FindStatusCondition(app.status.Conditions, "Ready")
		p := promise{app.object.GetUID(), app.status.ObservedGeneration}
		if ready == nil || ready.Status != "True" || ready.ObservedGeneration != p.generation || told[p] || kept[p] {
			continue
		}
		told[p] = true
		lines = append(lines, fmt.Sprintf("%s %s said at %s that it is ready with generation %d, and never was",
			app.object.GetKind(), app.object.GetName(), e.ResourceVersion, p.generation))
	}
	return lines
}

// ready says whether everything of an application runs as its spec says.
func (t truth) ready(app application) bool {
	for _, p := range app.parts {
		if p.service != nil && !t.serves(app, p) || p.stateful != nil && !t.holds(app, p) || p.job != nil && p.job.Schedule == "" && !t.succeeded(app, p) {
			return false
		}
	}
	return true
}

func (t truth) serves(app application, p part) bool {
	o := t[keyOf("Deployment", p.name)]
	if o == nil || controllerOf(o).UID != app.object.GetUID() {
		return false
	}
	d := read[appsv1.Deployment](o)
	wanted := *d.Spec.Replicas
	if p.service.Replicas != nil && *p.service.Replicas != wanted {
		return false
	}
	return imageOf(d.Spec.Template.Spec) == p.service.Image && d.Status.ObservedGeneration == d.Generation &&
		d.Status.UpdatedReplicas == wanted && d.Status.ReadyReplicas == wanted && d.Status.Replicas == wanted
}

// holds says whether a component runs on volumes that are as large as the spec says.
func (t truth) holds(app application, p part) bool {
	for _, o := range t {
		if o.GetKind() != "StatefulSet" || !p.is(o) || controllerOf(o).UID != app.object.GetUID() {
			continue
		}
		s := read[appsv1.StatefulSet](o)
		wanted := *s.Spec.Replicas
		if p.stateful.Replicas != nil && *p.stateful.Replicas != wanted {
			return false
		}
		for i := range wanted {
			for _, volume := range p.stateful.Storage {
				claim := t[keyOf("PersistentVolumeClaim", fmt.Sprintf("%s-%s-%d", volume.Name, s.Name, i))]
				if claim == nil {
					return false
				}
				// Pods that are played do not wait for their volume, as real ones do.
				if has := read[corev1.PersistentVolumeClaim](claim).Status.Capacity[corev1.ResourceStorage]; !has.IsZero() && has.Cmp(volume.Size) < 0 {
					return false
				}
			}
		}
		return imageOf(s.Spec.Template.Spec) == p.stateful.Image && s.Status.ObservedGeneration == s.Generation &&
			s.Status.UpdatedReplicas == wanted && s.Status.ReadyReplicas == wanted && s.Status.Replicas == wanted
	}
	return false
}

func (t truth) succeeded(app application, p part) bool {
	for _, o := range t {
		if o.GetKind() != "Job" || controllerOf(o).UID != app.object.GetUID() || o.GetLabels()[appsapi.LabelComponent] != p.selector {
			continue
		}
		j := read[batchv1.Job](o)
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && imageOf(j.Spec.Template.Spec) == p.job.Image &&
				text(j.Spec.Template.Spec.Containers[0].Args) == text(p.job.Args) {
				return true
			}
		}
	}
	return false
}

func imageOf(pod corev1.PodSpec) string { return pod.Containers[0].Image }

func text(v []string) string {
	content, _ := json.Marshal(v) // strings can be encoded
	return string(content)
}
