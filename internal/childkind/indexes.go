package childkind

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// IndexWorkload finds the pods, claims and credentials of a workload.
	IndexWorkload = "workload"
	// IndexOwner finds the children of an application.
	IndexOwner = "owner"
	// IndexRetained finds the claims and credentials of the applications of one name.
	IndexRetained = "kept"
)

// Indexer computes index keys from the labels of one operator.
type Indexer struct{ *appsapi.Keys }

// ByOwner returns the keys of a child in IndexOwner: the UIDs in its owner reference and in its label.
// Another client can have removed either of them.
func (i Indexer) ByOwner(child client.Object) []string {
	var owners []string
	if ref := metav1.GetControllerOfNoCopy(child); ref != nil {
		owners = append(owners, string(ref.UID))
	}
	if uid := child.GetLabels()[i.OwnerUID]; uid != "" && !slices.Contains(owners, uid) {
		owners = append(owners, uid)
	}
	return owners
}

// ByWorkload returns the key of a pod in IndexWorkload.
func (i Indexer) ByWorkload(pod client.Object) []string {
	if id := pod.GetLabels()[i.Workload]; id != "" {
		return []string{id}
	}
	return nil
}

// ByRetained returns the key of a claim or Secret in IndexRetained.
func (i Indexer) ByRetained(obj client.Object) []string {
	l := obj.GetLabels()
	if l[appsapi.LabelInstance] == "" || l[i.Workload] == "" {
		return nil
	}
	return []string{RetainedKey(l[i.OwnerKind], l[appsapi.LabelInstance])}
}

// RetainedKey is the value of IndexRetained for the data of an application.
func RetainedKey(kind, name string) string { return kind + "/" + name }

// Matches reports whether an object has a key in an index.
func (i Indexer) Matches(obj client.Object, index, key string) bool {
	switch index {
	case IndexOwner:
		return slices.Contains(i.ByOwner(obj), key)
	case IndexWorkload:
		return slices.Contains(i.ByWorkload(obj), key)
	case IndexRetained:
		return slices.Contains(i.ByRetained(obj), key)
	}
	return false
}
