package model

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// managedKinds are the kinds of applications that the operator runs.
var managedKinds = []string{"AppStack", "AppService", "CloudManager"}

func managedGroupKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: appsapi.GroupVersion.Group, Kind: kind}
}

// HandleChanges hears what happened to objects, and notes which applications that is about.
func (m *Model) HandleChanges(changes []store.Change) {
	var refs []Ref
	for _, c := range changes {
		var affected []Ref
		for _, e := range []*store.Entry{c.Before, c.After} {
			if e != nil {
				affected = append(affected, m.affectedApplications(e)...)
			}
		}
		m.recordChange(c, affected)
		refs = append(refs, affected...)
	}
	m.MarkDirty(refs...)
}

// affectedApplications are the applications that an object has to do with.
func (m *Model) affectedApplications(e *store.Entry) []Ref {
	switch o := e.Object.(type) {
	case nil: // a ConfigMap that is nobody's, but may be used
		return m.applicationsReferencing(e)
	case *corev1.Node:
		return m.applicationsOfEntries(m.Store.Find(store.Term{Field: ByNode, Value: o.Name}))
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef == nil {
			return nil
		}
		return m.applicationsOfEntries([]*store.Entry{m.Store.Get(kindClaim, o.Spec.ClaimRef.Namespace, o.Spec.ClaimRef.Name)})
	case *corev1.Event:
		return m.applicationsOfEntries([]*store.Entry{m.Store.ByUID(o.InvolvedObject.UID)})
	case *discoveryv1.EndpointSlice:
		return m.applicationsOfEntries([]*store.Entry{m.Store.Get(kindService, o.Namespace, o.Labels[discoveryv1.LabelServiceName])})
	}
	switch e.Kind().GroupKind() {
	case kindStorageClass, kindIngressClass: // a class that comes may be what somebody waits for
		return m.refsWhere(func(r *Record) bool { return r.Health != health.Healthy })
	case kindConfigMap, kindClaim:
		return append(m.applicationsReferencing(e), m.ApplicationsOf(e)...)
	}
	return m.ApplicationsOf(e)
}

// applicationsReferencing are the applications that refer to an object.
func (m *Model) applicationsReferencing(e *store.Entry) []Ref {
	return m.applicationsOfEntries(m.Store.Find(store.Term{Field: ByReference, Value: e.Kind().Kind + "/" + e.Namespace + "/" + e.Name}))
}

func (m *Model) applicationsOfEntries(entries []*store.Entry) []Ref {
	var out []Ref
	for _, e := range entries {
		if e != nil {
			out = append(out, m.ApplicationsOf(e)...)
		}
	}
	return out
}

// maxOwnerDepth is how far up owners are followed.
const maxOwnerDepth = 8

// ApplicationsOf are the applications that an object belongs to: the one that it names, or its owner does. Of
// a pod of ours whose owners are gone only the name of the application is known.
func (m *Model) ApplicationsOf(e *store.Entry) []Ref {
	origin := e
	for range maxOwnerDepth {
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
		if kind, namespace, name, ok := inspect.Membership(o); ok {
			return []Ref{{kind, namespace, name}}
		}
		e = m.Store.ByUID(store.ControllerUID(e.Object))
	}
	o, err := meta.Accessor(origin.Object)
	if err != nil || o.GetLabels()[appsapi.LabelManagedBy] != appsapi.ManagedBy {
		return nil
	}
	var out []Ref
	for _, kind := range managedKinds {
		name := o.GetLabels()[appsapi.LabelInstance]
		if m.Store.Get(managedGroupKind(kind), origin.Namespace, name) != nil {
			out = append(out, Ref{kind, origin.Namespace, name})
		}
	}
	return out
}
