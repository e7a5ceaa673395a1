package desired

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindRevision is the kind of the object that stores a spec.
var KindRevision = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

// RevisionName returns the name of the revision of a spec by its hash. It includes the UID of the owner, because
// revisions of a deleted owner with the same name can still exist.
func RevisionName(owner Owner, hash string) string {
	id := digest([]byte(string(owner.UID) + "/" + hash))[:len(hash)]
	return shortenTo(owner.Name, maxLabelLength-len(id)-1) + "-" + id
}

// NewRevision returns a revision that stores a spec. jobs are the hashes of its jobs. The revision has no label
// that a workload selects, because Kubernetes controllers adopt revisions by label.
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
		r.Annotations = map[string]string{owner.Keys.JobSpec: strings.Join(jobs, ",")}
	}
	return r
}

// RevisionJobHashes returns the hashes of the jobs in the spec of a revision.
func RevisionJobHashes(keys *appsapi.Keys, r *appsv1.ControllerRevision) []string {
	return splitList(r.Annotations[keys.JobSpec])
}

// JobSpecHashes returns the hashes of the jobs among components.
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
