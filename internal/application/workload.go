package application

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
)

// WorkloadKinds are the kinds of children that have pods.
var WorkloadKinds = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	batchv1.SchemeGroupVersion.WithKind("Job"), batchv1.SchemeGroupVersion.WithKind("CronJob"),
}

// ComponentRef is where in an application a child belongs, as its labels say.
type ComponentRef struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Component string `json:"component,omitempty"`
}

// ComponentRefOf reads the labels of a child. Its controller knows the name better: labels are
// short.
func ComponentRefOf(child metav1.Object) ComponentRef {
	l := child.GetLabels()
	p := ComponentRef{Kind: l[appsapi.LabelOwnerKind], Name: l[appsapi.LabelInstance], Component: l[appsapi.LabelComponent]}
	if ref := metav1.GetControllerOf(child); ref != nil && string(ref.UID) == l[appsapi.LabelOwnerUID] {
		p.Kind, p.Name = ref.Kind, ref.Name
	}
	return p
}

// WorkloadKey finds the workload of a pod: both have its id as a label.
type WorkloadKey struct{ Namespace, ID string }

// WorkloadKeyOf is the key of a child that has pods, or of one of them.
func WorkloadKeyOf(o metav1.Object) WorkloadKey {
	return WorkloadKey{o.GetNamespace(), o.GetLabels()[appsapi.LabelWorkload]}
}

// ComponentsByWorkload are the places of the children that have pods, which pods do not know
// themselves. Nothing but metadata is read.
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

// ListAll reads a list in pages. When it changes so fast that the pages no longer fit, it is
// read as a whole.
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
