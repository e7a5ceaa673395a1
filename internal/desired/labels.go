package desired

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// childLabels returns the labels of a child.
func childLabels(owner Owner, c ExpandedComponent) map[string]string {
	return map[string]string{
		appsapi.LabelName:      strings.ToLower(string(TypeOf(c.Component))),
		appsapi.LabelInstance:  owner.Name,
		appsapi.LabelComponent: c.Name,
		appsapi.LabelPartOf:    owner.Name,
		appsapi.LabelManagedBy: appsapi.ManagedBy,
		owner.Keys.OwnerUID:    string(owner.UID),
		owner.Keys.OwnerKind:   owner.KindLabel(),
	}
}

// workloadLabels returns the labels of a workload. Only workloads have the version label, so that a new image
// does not change the other children.
func workloadLabels(owner Owner, c ExpandedComponent, workload, image string) map[string]string {
	l := childLabels(owner, c)
	l[owner.Keys.Workload] = workload
	if v := imageVersion(image); v != "" {
		l[appsapi.LabelVersion] = v
	}
	return l
}

// podSelector returns the label selector of the pods of a workload.
func podSelector(keys *appsapi.Keys, workload string) map[string]string {
	return map[string]string{
		appsapi.LabelManagedBy: appsapi.ManagedBy,
		keys.Workload:          workload,
	}
}

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// imageVersion returns the tag of an image if it is a valid label value.
func imageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	if !labelValue.MatchString(tag) {
		return ""
	}
	return tag
}

// OwnerLabels returns the labels that identify the owner of an object.
func OwnerLabels(owner Owner) map[string]string {
	return map[string]string{
		appsapi.LabelInstance:  owner.Name,
		appsapi.LabelPartOf:    owner.Name,
		appsapi.LabelManagedBy: appsapi.ManagedBy,
		owner.Keys.OwnerUID:    string(owner.UID),
		owner.Keys.OwnerKind:   owner.KindLabel(),
	}
}

// OwnerReference returns the controller reference to an application.
func OwnerReference(owner Owner) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// ownerReferenceConfig returns the same reference as an apply configuration.
func ownerReferenceConfig(o Owner) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name).WithUID(o.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}
