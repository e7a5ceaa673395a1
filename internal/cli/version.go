package cli

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Where an installation puts the operator and the application center.
const (
	OperatorNamespace = "holdfast-system"
	OperatorName      = "holdfast-operator"
	CenterName        = "holdfast-center"
)

// DeploymentVersion is the version of the operator, or the center, that a Deployment runs: what its
// label says, else the tag of its image. It is empty when neither does.
func DeploymentVersion(d *appsv1.Deployment) string {
	for _, labels := range []map[string]string{d.Labels, d.Spec.Template.Labels} {
		if v := labels[appsapi.LabelVersion]; v != "" {
			return v
		}
	}
	return imageTag(DeploymentImage(d))
}

// DeploymentImage is the image of the operator, or the center.
func DeploymentImage(d *appsv1.Deployment) string {
	for i := range d.Spec.Template.Spec.Containers {
		if c := &d.Spec.Template.Spec.Containers[i]; c.Name == "operator" || c.Name == "center" || len(d.Spec.Template.Spec.Containers) == 1 {
			return c.Image
		}
	}
	return ""
}

// imageTag is the tag of an image. A registry may have a port, and a digest is no version.
func imageTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// VersionSkewWarning warns when the plugin and the operator are of different versions: what one says
// about the other may be wrong then. It is empty when they agree, or one is not known.
func VersionSkewWarning(plugin, operator string) string {
	if plugin == "" || operator == "" || strings.TrimPrefix(plugin, "v") == strings.TrimPrefix(operator, "v") {
		return ""
	}
	return fmt.Sprintf("The plugin is of version %s and the operator of version %s; use the same, so that the plugin knows what the operator does.", plugin, operator)
}
