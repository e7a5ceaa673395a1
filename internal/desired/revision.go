package desired

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindRevision is the kind of an object that remembers a spec.
var KindRevision = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

// RevisionName is the name of the revision of a spec, by its hash. It is another one for
// every object: that of a deleted object of the same name is still there for a moment, or
// for good if its children were to stay.
func RevisionName(owner Owner, hash string) string {
	id := digest([]byte(string(owner.UID) + "/" + hash))[:len(hash)]
	return shortenTo(owner.Name, maxLabelLength-len(id)-1) + "-" + id
}

// NewRevision remembers a spec. jobs are the hashes of the jobs in it. It has no label that a
// workload selects: controllers of Kubernetes adopt revisions by their labels.
func NewRevision(owner Owner, hash string, data []byte, number int64, jobs []string) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Namespace, Name: RevisionName(owner, hash),
			Labels:          OwnerLabels(owner),
			OwnerReferences: []metav1.OwnerReference{OwnerReference(owner)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
	if len(jobs) > 0 {
		r.Annotations = map[string]string{appsapi.AnnotationJobSpec: strings.Join(jobs, ",")}
	}
	return r
}

// OwnerLabels say whose an object is, whatever it is.
func OwnerLabels(owner Owner) map[string]string {
	return map[string]string{
		appsapi.LabelInstance:  owner.Name,
		appsapi.LabelPartOf:    owner.Name,
		appsapi.LabelManagedBy: appsapi.ManagedBy,
		appsapi.LabelOwnerUID:  string(owner.UID),
		appsapi.LabelOwnerKind: owner.KindLabel(),
	}
}

// OwnerReference is that of a revision.
func OwnerReference(owner Owner) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// RevisionJobHashes are the hashes of the jobs in the spec that a revision remembers.
func RevisionJobHashes(r *appsv1.ControllerRevision) []string {
	return splitList(r.Annotations[appsapi.AnnotationJobSpec])
}

// JobSpecHashes are the hashes of the jobs among components.
func JobSpecHashes(components []Component) []string {
	var jobs []string
	for _, c := range components {
		if c.JobSpecHash != "" {
			jobs = append(jobs, c.JobSpecHash)
		}
	}
	slices.Sort(jobs)
	return slices.Compact(jobs)
}
