package store

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// pod keeps of a pod what causes are found from, which is little while it is well, what it uses,
// and how its containers are.
func pod(o *corev1.Pod) *corev1.Pod {
	kept := explain.Project(o)
	kept.TypeMeta, kept.Annotations = o.TypeMeta, o.Annotations
	kept.Labels, kept.OwnerReferences, kept.Finalizers = o.Labels, o.OwnerReferences, o.Finalizers
	uses := podUses(&o.Spec)
	join(uses.InitContainers, kept.Spec.InitContainers)
	join(uses.Containers, kept.Spec.Containers)
	kept.Spec.NodeName, kept.Spec.ServiceAccountName, kept.Spec.ImagePullSecrets = o.Spec.NodeName, uses.ServiceAccountName, uses.ImagePullSecrets
	kept.Spec.InitContainers, kept.Spec.Containers, kept.Spec.EphemeralContainers = uses.InitContainers, uses.Containers, uses.EphemeralContainers
	kept.Spec.Volumes = uses.Volumes
	kept.Status.InitContainerStatuses = statuses(o.Status.InitContainerStatuses, kept.Status.InitContainerStatuses)
	kept.Status.ContainerStatuses = statuses(o.Status.ContainerStatuses, kept.Status.ContainerStatuses)
	return kept
}

// podUses keeps of a spec what it refers to, and what its Services lead to.
func podUses(s *corev1.PodSpec) corev1.PodSpec {
	kept := corev1.PodSpec{ServiceAccountName: s.ServiceAccountName, ImagePullSecrets: s.ImagePullSecrets}
	containers := func(all []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for i := range all {
			c := &all[i]
			out = append(out, corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, EnvFrom: c.EnvFrom, Env: taken(c.Env)})
		}
		return out
	}
	kept.InitContainers, kept.Containers = containers(s.InitContainers), containers(s.Containers)
	for i := range s.EphemeralContainers {
		c := &s.EphemeralContainers[i]
		kept.EphemeralContainers = append(kept.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Image: c.Image, EnvFrom: c.EnvFrom, Env: taken(c.Env)}})
	}
	kept.Volumes = volumes(s.Volumes)
	return kept
}

// volumes are those that are made of something: not an empty one, or the token of every pod.
func volumes(all []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for i := range all {
		v := all[i]
		if v.EmptyDir != nil || v.HostPath != nil || v.DownwardAPI != nil {
			continue
		}
		if v.Projected != nil {
			var from []corev1.VolumeProjection
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil || s.Secret != nil {
					from = append(from, s)
				}
			}
			v.Projected = &corev1.ProjectedVolumeSource{Sources: from}
		}
		if v.Ephemeral != nil {
			v.Ephemeral = &corev1.EphemeralVolumeSource{}
		}
		out = append(out, v)
	}
	return out
}

// taken are the variables that are taken from somewhere.
func taken(all []corev1.EnvVar) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, v := range all {
		if from := v.ValueFrom; from != nil && (from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil) {
			out = append(out, v)
		}
	}
	return out
}

// join adds what causes are found from: all containers of a pod, or none.
func join(all, kept []corev1.Container) {
	for i := range kept {
		k := &kept[i]
		c := &all[i]
		c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = k.ReadinessProbe, k.LivenessProbe, k.StartupProbe
		c.RestartPolicy, c.Resources = k.RestartPolicy, k.Resources
	}
}

// statuses are those that causes are found from; of a pod that is well or over, how its containers
// are.
func statuses(all, kept []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(kept) > 0 {
		return kept
	}
	var out []corev1.ContainerStatus
	for i := range all {
		s := &all[i]
		out = append(out, corev1.ContainerStatus{Name: s.Name, Image: s.Image, Ready: s.Ready, Started: s.Started, RestartCount: s.RestartCount, State: s.State})
	}
	return out
}
