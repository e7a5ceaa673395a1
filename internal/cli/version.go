package cli

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Default namespace and names of an installation.
const (
	OperatorNamespace = "holdfast-system"
	OperatorName      = "holdfast-operator"
	CenterName        = "holdfast-center"
)

// devVersion is the version label of manifests that were not built by make dist.
const devVersion = "dev"

// DeploymentVersion returns the version of the operator or center that a Deployment runs: the version
// label, which make dist sets to the version of the build, or else the tag of its image. It is empty if
// both are missing.
func DeploymentVersion(d *appsv1.Deployment) string {
	for _, labels := range []map[string]string{d.Labels, d.Spec.Template.Labels} {
		if v := labels[appsapi.LabelVersion]; v != "" && v != devVersion {
			return v
		}
	}
	return imageTag(DeploymentImage(d))
}

// DeploymentImage returns the image of the operator or center.
func DeploymentImage(d *appsv1.Deployment) string {
	for i := range d.Spec.Template.Spec.Containers {
		if c := &d.Spec.Template.Spec.Containers[i]; c.Name == "operator" || c.Name == "center" || len(d.Spec.Template.Spec.Containers) == 1 {
			return c.Image
		}
	}
	return ""
}

// imageTag returns the tag of an image. It ignores the port of the registry and the digest.
func imageTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// VersionSkewWarning returns a warning if the versions of the plugin and the operator differ. It is empty
// if they match or if one is unknown.
func VersionSkewWarning(plugin, operator string) string {
	if plugin == "" || operator == "" || strings.TrimPrefix(plugin, "v") == strings.TrimPrefix(operator, "v") {
		return ""
	}
	return fmt.Sprintf("The plugin has version %s and the operator has version %s; install the same version of both.", plugin, operator)
}
