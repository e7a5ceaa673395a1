package rollout

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// mounted says whether pods may still want the files in a ConfigMap that no component
// wants: one that starts again must find what it found before.
func (p *planner) mounted(l leftover) bool {
	if l.id.Kind != desired.KindConfigMap {
		return false
	}
	for _, live := range p.Seen {
		if p.runsForUs(live) && mounts(live, l.id.Name, live.GetLabels()[appsapi.LabelComponent] == l.component) {
			return true
		}
	}
	return false
}

// mounts says whether pods of a workload may mount a ConfigMap. Of the template before, of
// which pods may be left, nothing is known but whose it was.
func mounts(live Object, name string, same bool) bool {
	switch w := live.(type) {
	case *appsv1.Deployment:
		return hasVolume(w.Spec.Template, name) || same && !health.RolledOut(w)
	case *appsv1.StatefulSet:
		return hasVolume(w.Spec.Template, name) || same && !health.RolledOut(w)
	case *batchv1.Job:
		return hasVolume(w.Spec.Template, name) && !Finished(w)
	case *batchv1.CronJob:
		return hasVolume(w.Spec.JobTemplate.Spec.Template, name) || same && len(w.Status.Active) > 0
	}
	return false
}

func hasVolume(template corev1.PodTemplateSpec, name string) bool {
	return slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil && v.ConfigMap.Name == name
	})
}
