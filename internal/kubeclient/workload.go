package kubeclient

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// WorkloadKinds are the kinds of children that have pods.
var WorkloadKinds = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	batchv1.SchemeGroupVersion.WithKind("Job"), batchv1.SchemeGroupVersion.WithKind("CronJob"),
}

// ComponentRef is the application and component that a child belongs to, according to its labels.
type ComponentRef struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Component string `json:"component,omitempty"`
}

// ComponentRefOf reads the labels of a child. Kind and name of its controller take precedence,
// because labels may be shortened.
func ComponentRefOf(child metav1.Object) ComponentRef {
	l, keys := child.GetLabels(), appkind.KeysOf(child)
	p := ComponentRef{Kind: l[keys.OwnerKind], Name: l[appsapi.LabelInstance], Component: l[appsapi.LabelComponent]}
	if ref := metav1.GetControllerOf(child); ref != nil && string(ref.UID) == l[keys.OwnerUID] {
		gv, _ := schema.ParseGroupVersion(ref.APIVersion)
		p.Kind, p.Name = desired.KindLabel(gv.WithKind(ref.Kind).GroupKind()), ref.Name
	}
	return p
}

// WorkloadKey identifies the workload of a pod: both have its ID as a label.
type WorkloadKey struct{ Namespace, ID string }

// WorkloadKeyOf returns the key of a workload or of one of its pods.
func WorkloadKeyOf(o metav1.Object) WorkloadKey {
	return WorkloadKey{o.GetNamespace(), o.GetLabels()[appkind.KeysOf(o).Workload]}
}

// ComponentsByWorkload returns the components of workloads, which pods do not record. It reads only
// metadata.
func ComponentsByWorkload(ctx context.Context, c client.Reader, opts ...client.ListOption) (map[WorkloadKey]ComponentRef, error) {
	found := map[WorkloadKey]ComponentRef{}
	for _, kind := range WorkloadKinds {
		objects, err := ListAll(ctx, c, func() client.ObjectList {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			return list
		}, append([]client.ListOption{ManagedByHoldfast()}, opts...)...)
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for _, o := range objects {
			if child, ok := o.(metav1.Object); ok {
				found[WorkloadKeyOf(child)] = ComponentRefOf(child)
			}
		}
	}
	return found, nil
}

// ManagedByHoldfast selects children and pods of applications.
func ManagedByHoldfast() client.ListOption {
	return client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy}
}

// ListAll reads a list in pages. If a continue token expires, it reads the whole list at once.
func ListAll(ctx context.Context, c client.Reader, newList func() client.ObjectList, opts ...client.ListOption) ([]runtime.Object, error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := newList()
		return list, c.List(ctx, list, append(opts[:len(opts):len(opts)], client.Limit(o.Limit), client.Continue(o.Continue))...)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return meta.ExtractList(list)
}
