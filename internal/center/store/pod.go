package store

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// projectPod keeps the fields of a pod that are required to explain causes (few while the pod is healthy), its
// references and the states of its containers.
func projectPod(o *corev1.Pod) *corev1.Pod {
	projected := explain.ProjectPod(o)
	projected.TypeMeta, projected.Annotations = o.TypeMeta, o.Annotations
	projected.Labels, projected.OwnerReferences, projected.Finalizers = o.Labels, o.OwnerReferences, o.Finalizers
	refs := projectPodSpec(&o.Spec)
	mergeContainerDetails(refs.InitContainers, projected.Spec.InitContainers)
	mergeContainerDetails(refs.Containers, projected.Spec.Containers)
	projected.Spec.NodeName, projected.Spec.ServiceAccountName, projected.Spec.ImagePullSecrets = o.Spec.NodeName, refs.ServiceAccountName, refs.ImagePullSecrets
	projected.Spec.InitContainers, projected.Spec.Containers, projected.Spec.EphemeralContainers = refs.InitContainers, refs.Containers, refs.EphemeralContainers
	projected.Spec.Volumes = refs.Volumes
	projected.Status.InitContainerStatuses = projectStatuses(o.Status.InitContainerStatuses, projected.Status.InitContainerStatuses)
	projected.Status.ContainerStatuses = projectStatuses(o.Status.ContainerStatuses, projected.Status.ContainerStatuses)
	return projected
}

// projectPodSpec keeps the references of a pod spec and the ports that Services target.
func projectPodSpec(s *corev1.PodSpec) corev1.PodSpec {
	projected := corev1.PodSpec{ServiceAccountName: s.ServiceAccountName, ImagePullSecrets: s.ImagePullSecrets}
	containers := func(all []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for i := range all {
			c := &all[i]
			out = append(out, corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, EnvFrom: c.EnvFrom, Env: referencedEnv(c.Env)})
		}
		return out
	}
	projected.InitContainers, projected.Containers = containers(s.InitContainers), containers(s.Containers)
	for i := range s.EphemeralContainers {
		c := &s.EphemeralContainers[i]
		projected.EphemeralContainers = append(projected.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Image: c.Image, EnvFrom: c.EnvFrom, Env: referencedEnv(c.Env)}})
	}
	projected.Volumes = referencedVolumes(s.Volumes)
	return projected
}

// referencedVolumes returns the volumes that reference other objects. It omits emptyDir, hostPath and downwardAPI
// volumes and the sources of ServiceAccount tokens.
func referencedVolumes(all []corev1.Volume) []corev1.Volume {
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

// referencedEnv returns the variables whose values come from ConfigMaps or Secrets.
func referencedEnv(all []corev1.EnvVar) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, v := range all {
		if from := v.ValueFrom; from != nil && (from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil) {
			out = append(out, v)
		}
	}
	return out
}

// mergeContainerDetails adds the fields that are required to explain causes. details contains all containers or
// none.
func mergeContainerDetails(containers, details []corev1.Container) {
	for i := range details {
		k := &details[i]
		c := &containers[i]
		c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = k.ReadinessProbe, k.LivenessProbe, k.StartupProbe
		c.RestartPolicy, c.Resources = k.RestartPolicy, k.Resources
	}
}

// projectStatuses returns the projected statuses if causes require them. For a healthy or completed pod it
// returns the states of the containers.
func projectStatuses(all, projected []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(projected) > 0 {
		return projected
	}
	var out []corev1.ContainerStatus
	for i := range all {
		s := &all[i]
		out = append(out, corev1.ContainerStatus{Name: s.Name, Image: s.Image, Ready: s.Ready, Started: s.Started, RestartCount: s.RestartCount, State: s.State})
	}
	return out
}
