package desired

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

const (
	resetContainer = "reset-credentials"
	resetVolume    = "holdfast-reset"
	resetPath      = "/etc/holdfast/reset"
	resetFile      = "root"
)

// RunsServer says whether a container of a database runs its server. Others may be there that somebody else has added.
func RunsServer(container string) bool {
	return container == containerName || container == resetContainer
}

// resetCredentials lets the server start with the password of root that is stored, when somebody has
// asked for that on the Secret. Nothing of it is in pods of which nobody did; and as it is in the
// template, asking restarts the server once.
func (a application) resetCredentials(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, c appsapi.Component) {
	secret := a.name(c) + authSuffix
	asked := ""
	for _, k := range a.homes[c.Name].kept {
		if k.ID == (ID{Kind: KindSecret, Name: secret}) {
			asked = k.GetAnnotations()[appsapi.AnnotationResetCredentials]
		}
	}
	if asked == "" {
		return
	}
	pod.WithVolumes(corev1ac.Volume().WithName(resetVolume).WithSecret(
		corev1ac.SecretVolumeSource().WithSecretName(secret).WithDefaultMode(credentialsMode).
			WithItems(corev1ac.KeyToPath().WithKey(mariadb.HashKey(mariadb.KeyRootPassword)).WithPath(resetFile))))
	reset := corev1ac.Container().WithName(resetContainer).WithCommand("sh", "-c", mariadb.ResetScript).WithEnv(
		corev1ac.EnvVar().WithName("RESET").WithValue(asked),
		corev1ac.EnvVar().WithName("HASH_FILE").WithValue(resetPath+"/"+resetFile))
	reset.Image, reset.ImagePullPolicy, reset.Resources, reset.SecurityContext = main.Image, main.ImagePullPolicy, main.Resources, main.SecurityContext
	reset.TerminationMessagePolicy = main.TerminationMessagePolicy
	reset.VolumeMounts = append(reset.VolumeMounts, main.VolumeMounts...)
	reset.WithVolumeMounts(corev1ac.VolumeMount().WithName(resetVolume).WithMountPath(resetPath).WithReadOnly(true))
	pod.WithInitContainers(reset)
}
