package desired

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

const (
	resetContainer = "reset-credentials"
	resetVolume    = "holdfast-reset"
	resetPath      = "/etc/holdfast/reset"
	resetFile      = "root"
)

// IsServerContainer reports whether a container of a database pod runs the server. Other clients can add further
// containers.
func IsServerContainer(container string) bool {
	return container == containerName || container == resetContainer
}

// addCredentialReset adds an init container that sets the stored root password, if the annotation
// ResetCredentials of the Secret is set. Without the annotation the pod template is unchanged; setting it
// restarts the server once.
func (rc renderContext) addCredentialReset(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, c ExpandedComponent) {
	secret := rc.childrenName(c) + authSuffix
	requestedAt := ""
	for _, k := range rc.dataLocations[c.Name].retained {
		if k.ID == (ID{Kind: KindSecret, Name: secret}) {
			requestedAt = k.GetAnnotations()[k.keys.ResetCredentials]
		}
	}
	if requestedAt == "" {
		return
	}
	pod.WithVolumes(corev1ac.Volume().WithName(resetVolume).WithSecret(
		corev1ac.SecretVolumeSource().WithSecretName(secret).WithDefaultMode(credentialsMode).
			WithItems(corev1ac.KeyToPath().WithKey(mariadb.HashKey(mariadb.KeyRootPassword)).WithPath(resetFile))))
	reset := corev1ac.Container().WithName(resetContainer).WithCommand("sh", "-c", mariadb.ResetScript).WithEnv(
		corev1ac.EnvVar().WithName("RESET").WithValue(requestedAt),
		corev1ac.EnvVar().WithName("HASH_FILE").WithValue(resetPath+"/"+resetFile))
	reset.Image, reset.ImagePullPolicy, reset.Resources, reset.SecurityContext = main.Image, main.ImagePullPolicy, main.Resources, main.SecurityContext
	reset.TerminationMessagePolicy = main.TerminationMessagePolicy
	reset.VolumeMounts = append(reset.VolumeMounts, main.VolumeMounts...)
	reset.WithVolumeMounts(corev1ac.VolumeMount().WithName(resetVolume).WithMountPath(resetPath).WithReadOnly(true))
	pod.WithInitContainers(reset)
}
