package desired

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// mountVolumes adds the volumes of the spec to a pod and its container.
func mountVolumes(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, volumes []appsapi.Volume) {
	for _, v := range volumes {
		pod.WithVolumes(volumeConfig(v))
		mount := corev1ac.VolumeMount().WithName(v.Name).WithMountPath(v.MountPath)
		if v.ReadOnly {
			mount.WithReadOnly(true)
		}
		main.WithVolumeMounts(mount)
	}
}

func volumeConfig(v appsapi.Volume) *corev1ac.VolumeApplyConfiguration {
	out := corev1ac.Volume().WithName(v.Name)
	switch {
	case v.EmptyDir != nil:
		dir := corev1ac.EmptyDirVolumeSource()
		if v.EmptyDir.SizeLimit != nil {
			dir.WithSizeLimit(*v.EmptyDir.SizeLimit)
		}
		if v.EmptyDir.Medium != "" {
			dir.WithMedium(v.EmptyDir.Medium)
		}
		out.WithEmptyDir(dir)
	case v.Secret != nil:
		secret := corev1ac.SecretVolumeSource().WithSecretName(v.Secret.Name).WithItems(keyItems(v.Secret.Items)...).
			WithDefaultMode(fileMode(v.Secret))
		out.WithSecret(secret)
	case v.ConfigMap != nil:
		config := corev1ac.ConfigMapVolumeSource().WithName(v.ConfigMap.Name).WithItems(keyItems(v.ConfigMap.Items)...).
			WithDefaultMode(fileMode(v.ConfigMap))
		out.WithConfigMap(config)
	case v.PersistentVolumeClaim != nil:
		claim := corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(v.PersistentVolumeClaim.ClaimName)
		if v.ReadOnly {
			claim.WithReadOnly(true)
		}
		out.WithPersistentVolumeClaim(claim)
	}
	return out
}

// fileMode returns the mode of files. The Kubernetes default is set explicitly: some versions of Kubernetes
// reset a removed mode to 0.
func fileMode(o *appsapi.ObjectVolume) int32 {
	if o.DefaultMode != nil {
		return *o.DefaultMode
	}
	return corev1.ConfigMapVolumeSourceDefaultMode
}

func keyItems(keys []appsapi.KeyPath) []*corev1ac.KeyToPathApplyConfiguration {
	var out []*corev1ac.KeyToPathApplyConfiguration
	for _, k := range keys {
		out = append(out, corev1ac.KeyToPath().WithKey(k.Key).WithPath(k.Path))
	}
	return out
}
