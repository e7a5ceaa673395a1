package plan

import (
	"context"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Where an installation puts the operator.
const (
	operatorNamespace = "holdfast-system"
	operatorName      = "holdfast-operator"
)

// warnOfVersions says when the planner of the plugin is not that of the operator. What cannot
// be known is not worth a word.
func warnOfVersions(ctx context.Context, c client.Reader, plugin string, errOut io.Writer) {
	var d appsv1.Deployment
	if c.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}, &d) != nil {
		return
	}
	if operator := versionOf(&d); differ(plugin, operator) {
		fmt.Fprintf(errOut, "warning: the plugin is version %s and the operator %s: they may decide differently; use the plugin of the operator's version\n", plugin, operator)
	}
}

func differ(plugin, operator string) bool {
	plugin, operator = strings.TrimPrefix(plugin, "v"), strings.TrimPrefix(operator, "v")
	known := func(v string) bool { return v != "" && v != "dev" && v != "latest" }
	return known(plugin) && known(operator) && plugin != operator
}

// versionOf is what the label of the operator says, or else the tag of its image.
func versionOf(d *appsv1.Deployment) string {
	if v := d.Labels[appsapi.LabelVersion]; v != "" {
		return v
	}
	for i := range d.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(d.Spec.Template.Spec.Containers[i].Image, "@")
		if _, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":"); ok {
			return tag
		}
	}
	return ""
}
