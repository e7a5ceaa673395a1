package desired

import (
	"regexp"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// childLabels are those of a child.
func childLabels(owner Owner, c appsapi.Component) map[string]string {
	return map[string]string{
		appsapi.LabelName:      strings.ToLower(string(componentType(c))),
		appsapi.LabelInstance:  owner.Name,
		appsapi.LabelComponent: c.Name,
		appsapi.LabelPartOf:    owner.Name,
		appsapi.LabelManagedBy: appsapi.ManagedBy,
		appsapi.LabelOwnerUID:  string(owner.UID),
		appsapi.LabelOwnerKind: owner.KindLabel(),
	}
}

// workloadLabels are those of a child that runs the image. Only it has the version: a new
// image would otherwise be worth a write to every other child.
func workloadLabels(owner Owner, c appsapi.Component, workload, image string) map[string]string {
	l := childLabels(owner, c)
	l[appsapi.LabelWorkload] = workload
	if v := imageVersion(image); v != "" {
		l[appsapi.LabelVersion] = v
	}
	return l
}

// podSelector finds the pods of a workload and of nothing else.
func podSelector(workload string) map[string]string {
	return map[string]string{
		appsapi.LabelManagedBy: appsapi.ManagedBy,
		appsapi.LabelWorkload:  workload,
	}
}

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// imageVersion is the tag of an image, if it has one that can be a label.
func imageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	if !labelValue.MatchString(tag) {
		return ""
	}
	return tag
}
