package model

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// ourKinds are the kinds of applications that the operator runs.
var ourKinds = []string{"AppStack", "AppService", "CloudManager"}

func ours(kind string) schema.GroupKind {
	return schema.GroupKind{Group: appsapi.GroupVersion.Group, Kind: kind}
}

// Changed hears what happened to objects, and notes which applications that is about.
func (m *Model) Changed(changes []store.Change) {
	var refs []Ref
	for _, c := range changes {
		var of []Ref
		for _, e := range []*store.Entry{c.Before, c.After} {
			if e != nil {
				of = append(of, m.touched(e)...)
			}
		}
		m.record(c, of)
		refs = append(refs, of...)
	}
	m.Touch(refs...)
}

// touched are the applications that an object has to do with.
func (m *Model) touched(e *store.Entry) []Ref {
	switch o := e.Object.(type) {
	case nil: // a ConfigMap that is nobody's, but may be used
		return m.users(e)
	case *corev1.Node:
		return m.each(m.Store.Find(store.Term{Field: ByNode, Value: o.Name}))
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef == nil {
			return nil
		}
		return m.each([]*store.Entry{m.Store.Get(kindClaim, o.Spec.ClaimRef.Namespace, o.Spec.ClaimRef.Name)})
	case *corev1.Event:
		return m.each([]*store.Entry{m.Store.ByUID(o.InvolvedObject.UID)})
	case *discoveryv1.EndpointSlice:
		return m.each([]*store.Entry{m.Store.Get(kindSvc, o.Namespace, o.Labels[discoveryv1.LabelServiceName])})
	}
	switch e.Kind().GroupKind() {
	case kindClass, kindIngCl: // a class that comes may be what somebody waits for
		return m.refs(func(r *Record) bool { return r.Health != health.Healthy })
	case kindMap, kindClaim:
		return append(m.users(e), m.Of(e)...)
	}
	return m.Of(e)
}

// users are the applications that refer to an object.
func (m *Model) users(e *store.Entry) []Ref {
	return m.each(m.Store.Find(store.Term{Field: ByReference, Value: e.Kind().Kind + "/" + e.Namespace + "/" + e.Name}))
}

func (m *Model) each(entries []*store.Entry) []Ref {
	var out []Ref
	for _, e := range entries {
		if e != nil {
			out = append(out, m.Of(e)...)
		}
	}
	return out
}

// maxOwners is how far up owners are followed.
const maxOwners = 8

// Of are the applications that an object belongs to: the one that it names, or its owner does. Of
// a pod of ours whose owners are gone only the name of the application is known.
func (m *Model) Of(e *store.Entry) []Ref {
	start := e
	for range maxOwners {
		if e == nil || e.Object == nil {
			break
		}
		if k := e.Kind(); k.Group == appsapi.GroupVersion.Group {
			return []Ref{{k.Kind, e.Namespace, e.Name}}
		}
		o, err := meta.Accessor(e.Object)
		if err != nil {
			break
		}
		if kind, namespace, name, ok := view.Membership(o); ok {
			return []Ref{{kind, namespace, name}}
		}
		e = m.Store.ByUID(store.Owner(e.Object))
	}
	o, err := meta.Accessor(start.Object)
	if err != nil || o.GetLabels()[appsapi.LabelManagedBy] != appsapi.ManagedBy {
		return nil
	}
	var out []Ref
	for _, kind := range ourKinds {
		name := o.GetLabels()[appsapi.LabelInstance]
		if m.Store.Get(ours(kind), start.Namespace, name) != nil {
			out = append(out, Ref{kind, start.Namespace, name})
		}
	}
	return out
}
