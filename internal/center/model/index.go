package model

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Index fields.
const (
	// ByOwner is NAMESPACE/UID of an owner in the namespace of the object. Anyone can write an owner reference with the
	// UID of an object of another namespace.
	ByOwner store.Field = iota + 1
	// ByApplication is the [Ref.String] of the application in the labels or annotations of an object.
	ByApplication
	// ByInstance is NAMESPACE/NAME of a managed application of any kind, because pods do not have the kind.
	ByInstance
	// ByNode is the name of a node.
	ByNode
	// ByImage is an image.
	ByImage
	// ByReference is KIND/NAMESPACE/NAME of a referenced object.
	ByReference
	// ByLabel is KEY=VALUE.
	ByLabel
	// ByService is NAMESPACE/NAME of the Service of an EndpointSlice.
	ByService
	// ByInvolvedObject is NAMESPACE/UID of the involved object of an event.
	ByInvolvedObject
)

func uidKey(namespace string, uid types.UID) string { return namespace + "/" + string(uid) }

// IndexTerms returns the index terms of an object.
func IndexTerms(obj runtime.Object) []store.Term {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	ns := m.GetNamespace() + "/"
	if e, ok := obj.(*corev1.Event); ok {
		return []store.Term{{Field: ByInvolvedObject, Value: uidKey(e.InvolvedObject.Namespace, e.InvolvedObject.UID)}}
	}
	var out []store.Term
	add := func(f store.Field, value string) { out = append(out, store.Term{Field: f, Value: value}) }
	for _, ref := range m.GetOwnerReferences() {
		add(ByOwner, uidKey(m.GetNamespace(), ref.UID))
	}
	if kind, namespace, name, ok := inspect.Membership(m); ok {
		add(ByApplication, Ref{kind, namespace, name}.String())
	}
	labels := m.GetLabels()
	if labels[appsapi.LabelManagedBy] == appsapi.ManagedBy {
		add(ByInstance, ns+labels[appsapi.LabelInstance])
	}
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
		add(ByService, ns+slice.Labels[discoveryv1.LabelServiceName])
		return out // it copies the labels of its Service and references only pods
	}
	for key, value := range labels {
		add(ByLabel, key+"="+value)
	}
	for _, image := range inspect.Images(obj) {
		add(ByImage, image)
	}
	for _, ref := range inspect.References(obj) {
		if ref.Kind == "Node" {
			add(ByNode, ref.Name)
			continue
		}
		add(ByReference, ref.Kind+"/"+ns+ref.Name)
	}
	return out
}
