package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// HandleChanges logs changes of objects and marks the affected applications dirty.
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

// affectedApplications returns the applications whose view depends on an object.
func (m *Model) affectedApplications(e *store.Entry) []Ref {
	switch o := e.Object.(type) {
	case nil: // a ConfigMap without an owner, which applications may reference
		return m.applicationsReferencing(e)
	case *corev1.Node:
		return m.applicationsOfEntries(m.Store.Find(store.Term{Field: ByNode, Value: o.Name}))
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef == nil {
			return nil
		}
		return m.applicationsOfEntries([]*store.Entry{m.Store.Get(kindClaim, o.Spec.ClaimRef.Namespace, o.Spec.ClaimRef.Name)})
	case *corev1.Event:
		return m.applicationsOfEntries([]*store.Entry{m.byUID(o.InvolvedObject.Namespace, o.InvolvedObject.UID)})
	case *discoveryv1.EndpointSlice:
		return m.applicationsOfEntries([]*store.Entry{m.Store.Get(kindService, o.Namespace, o.Labels[discoveryv1.LabelServiceName])})
	}
	switch e.Kind().GroupKind() {
	case kindStorageClass, kindIngressClass: // unready applications may be waiting for a new class
		return m.refsWhere(func(r *Record) bool { return r.Health != health.Healthy })
	case kindConfigMap, kindClaim:
		return append(m.applicationsReferencing(e), m.ApplicationsOf(e)...)
	}
	return m.ApplicationsOf(e)
}

// byUID returns an object of a namespace, or nil.
func (m *Model) byUID(namespace string, uid types.UID) *store.Entry {
	if e := m.Store.ByUID(uid); e != nil && e.Namespace == namespace {
		return e
	}
	return nil
}

// applicationsReferencing returns the applications that reference an object.
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

// maxOwnerDepth limits the length of owner chains.
const maxOwnerDepth = 8

// ApplicationsOf returns the applications that an object belongs to, by its own labels and annotations or by an
// owner's. A managed pod whose owners were deleted has only the name of the application, so it may match
// several kinds.
func (m *Model) ApplicationsOf(e *store.Entry) []Ref {
	origin := e
	for range maxOwnerDepth {
		if e == nil || e.Object == nil {
			break
		}
		if app, ok := e.Object.(appkind.Application); ok {
			return []Ref{{appkind.Of(app).Name(), e.Namespace, e.Name}}
		}
		o, err := meta.Accessor(e.Object)
		if err != nil {
			break
		}
		if kind, namespace, name, ok := inspect.Membership(o); ok {
			return []Ref{{kind, namespace, name}}
		}
		e = m.byUID(e.Namespace, store.ControllerUID(e.Object))
	}
	o, err := meta.Accessor(origin.Object)
	if err != nil || o.GetLabels()[appsapi.LabelManagedBy] != appsapi.ManagedBy {
		return nil
	}
	var out []Ref
	for _, kind := range slices.Concat(appkind.Builtin, appkind.Discovered()) {
		name := o.GetLabels()[appsapi.LabelInstance]
		if m.Store.Get(kind.GroupKind(), origin.Namespace, name) != nil {
			out = append(out, Ref{kind.Name(), origin.Namespace, name})
		}
	}
	return out
}
