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

// isMounted reports whether pods may still need the files of a leftover ConfigMap: a pod that
// restarts must find the same files.
func (p *planner) isMounted(l leftover) bool {
	if l.id.Kind != desired.KindConfigMap {
		return false
	}
	for _, live := range p.Observed {
		if p.belongsToOwner(live) && mayMount(live, l.id.Name, live.GetLabels()[appsapi.LabelComponent] == l.component) {
			return true
		}
	}
	return false
}

// mayMount reports whether pods of a workload may mount a ConfigMap. During a rollout the pods of
// the previous template may mount any ConfigMap of their component.
func mayMount(live Object, name string, sameComponent bool) bool {
	switch w := live.(type) {
	case *appsv1.Deployment:
		return mountsConfigMap(w.Spec.Template, name) || sameComponent && !health.RolledOut(w)
	case *appsv1.StatefulSet:
		return mountsConfigMap(w.Spec.Template, name) || sameComponent && !health.RolledOut(w)
	case *batchv1.Job:
		return mountsConfigMap(w.Spec.Template, name) && !JobFinished(w)
	case *batchv1.CronJob:
		return mountsConfigMap(w.Spec.JobTemplate.Spec.Template, name) || sameComponent && len(w.Status.Active) > 0
	}
	return false
}

func mountsConfigMap(template corev1.PodTemplateSpec, name string) bool {
	return slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil && v.ConfigMap.Name == name
	})
}
