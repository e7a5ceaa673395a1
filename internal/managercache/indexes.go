package managercache

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

const (
	// IndexWorkload finds the pods of a workload without a look at all others.
	IndexWorkload = "workload"
	// IndexOwner finds the children of an application.
	IndexOwner = "owner"
	// IndexRetained finds the claims and credentials of the applications of one name.
	IndexRetained = "kept"
)

// AddIndexes adds what the reconciler looks objects up by. Every kind asks for the same ones.
func AddIndexes(mgr ctrl.Manager) error {
	ctx, indexer := context.Background(), mgr.GetFieldIndexer()
	for _, child := range ChildKinds {
		if err := indexer.IndexField(ctx, child.Object, IndexOwner, OwnerIndexKeys); err != nil {
			return err
		}
	}
	secret := PartialMetadata(desired.RefSecret)
	for _, idx := range []struct {
		object    client.Object
		field     string
		indexFunc client.IndexerFunc
	}{
		{PodObject, IndexWorkload, WorkloadIndexKeys}, {StatefulSetKind.Object, IndexWorkload, WorkloadIndexKeys},
		{ClaimObject, IndexWorkload, WorkloadIndexKeys}, {secret, IndexWorkload, WorkloadIndexKeys},
		{ClaimObject, IndexRetained, retainedIndexKeys}, {secret, IndexRetained, retainedIndexKeys},
	} {
		if err := indexer.IndexField(ctx, idx.object, idx.field, idx.indexFunc); err != nil {
			return err
		}
	}
	return nil
}

// OwnerIndexKeys are the keys of a child in IndexOwner: whose it is by its reference, and by its
// label, either of which somebody may have taken away.
func OwnerIndexKeys(child client.Object) []string {
	var owners []string
	if ref := metav1.GetControllerOfNoCopy(child); ref != nil {
		owners = append(owners, string(ref.UID))
	}
	if uid := child.GetLabels()[appsapi.LabelOwnerUID]; uid != "" && !slices.Contains(owners, uid) {
		owners = append(owners, uid)
	}
	return owners
}

// WorkloadIndexKeys is the key of a pod in IndexWorkload.
func WorkloadIndexKeys(pod client.Object) []string {
	if id := pod.GetLabels()[appsapi.LabelWorkload]; id != "" {
		return []string{id}
	}
	return nil
}

// retainedIndexKeys is the key of a claim or Secret in IndexRetained.
func retainedIndexKeys(obj client.Object) []string {
	l := obj.GetLabels()
	if l[appsapi.LabelInstance] == "" || l[appsapi.LabelWorkload] == "" {
		return nil
	}
	return []string{RetainedKey(l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])}
}

// RetainedKey is the value of IndexRetained for the data of an application.
func RetainedKey(kind, name string) string { return kind + "/" + name }
