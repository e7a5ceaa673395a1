package model

import (
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// buildRecord returns the record of an application, or nil if the application does not exist.
func (m *Model) buildRecord(ref Ref, now time.Time) *Record {
	if ref.IsManaged() {
		return m.buildManagedRecord(ref, now)
	}
	members := m.members(ref, "")
	if len(members) == 0 {
		return nil
	}
	c := m.collectObjects(members)
	r := &Record{Ref: ref, Created: c.oldestCreation, Kinds: c.kinds}
	r.View = inspect.EvaluateGroup(inspect.GroupInput{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Objects: c.objects, CompleteKinds: m.fullyWatchedKinds(ref.Namespace), Now: now})
	return r
}

// buildManagedRecord builds the record of an application that is managed by an operator.
func (m *Model) buildManagedRecord(ref Ref, now time.Time) *Record {
	e := m.Store.Get(appkind.ParseName(ref.Kind), ref.Namespace, ref.Name)
	if e == nil {
		return nil
	}
	app, ok := e.Object.(appkind.Application)
	if !ok {
		return nil
	}
	c := m.collectObjects(m.members(ref, app.GetUID()))
	in := inspect.Input{App: app, Kind: appkind.Of(app).Kind, Owner: appkind.Owner(app), Status: app.ApplicationStatus(), Objects: c.objects,
		CompleteKinds: m.fullyWatchedKinds(ref.Namespace), IncludeEdges: true, Now: now}
	if stack, ok := app.(appkind.Stack); ok {
		in.Stack = stack.StackStatus()
	}
	in.Components = appkind.Observe(app, c.objects)
	in.MissingRefs = m.missingConfigMaps(ref.Namespace, in.Components, c.objects)
	view := inspect.Evaluate(in)
	view.Kind = ref.Kind // clients use this kind in API paths
	return &Record{Ref: ref, View: view, Created: app.GetCreationTimestamp().Time, Kinds: c.kinds}
}

// members returns the objects of an application and, recursively, the objects that they own.
func (m *Model) members(ref Ref, uid types.UID) []*store.Entry {
	found := m.Store.Find(store.Term{Field: ByApplication, Value: ref.String()})
	if uid != "" {
		found = append(found, m.Store.Find(store.Term{Field: ByInstance, Value: ref.Namespace + "/" + ref.Name})...)
		found = append(found, m.Store.Find(store.Term{Field: ByOwner, Value: uidKey(ref.Namespace, uid)})...)
	}
	seen := make(map[*store.Entry]bool, len(found))
	for i := 0; i < len(found); i++ {
		e := found[i]
		if seen[e] {
			continue
		}
		seen[e] = true
		if o, err := meta.Accessor(e.Object); err == nil {
			found = append(found, m.Store.Find(store.Term{Field: ByOwner, Value: uidKey(e.Namespace, o.GetUID())})...)
		}
	}
	out := make([]*store.Entry, 0, len(seen))
	for e := range seen {
		out = append(out, e)
	}
	// The store is unordered; sorting keeps the order of a view stable.
	slices.SortFunc(out, store.Compare)
	return out
}

func (m *Model) findSorted(f store.Field, value string) []*store.Entry {
	all := m.Store.Find(store.Term{Field: f, Value: value})
	slices.SortFunc(all, store.Compare)
	return all
}

// viewObjects contains the objects that a view is built from.
type viewObjects struct {
	objects        []runtime.Object
	kinds          []schema.GroupKind
	oldestCreation time.Time
}

// collectObjects adds related objects to the members: nodes, volumes, classes, EndpointSlices, events and
// referenced ConfigMaps.
func (m *Model) collectObjects(members []*store.Entry) viewObjects {
	var c viewObjects
	included := map[*store.Entry]bool{}
	include := func(entries ...*store.Entry) {
		for _, e := range entries {
			if e != nil && e.Object != nil && !included[e] {
				included[e] = true
				c.objects = append(c.objects, e.Object)
			}
		}
	}
	include(members...)
	for _, e := range members {
		if kind := e.Kind().GroupKind(); !slices.Contains(c.kinds, kind) {
			c.kinds = append(c.kinds, kind)
		}
		o, err := meta.Accessor(e.Object)
		if err != nil {
			continue
		}
		if at := o.GetCreationTimestamp().Time; c.oldestCreation.IsZero() || at.Before(c.oldestCreation) {
			c.oldestCreation = at
		}
		include(m.findSorted(ByInvolvedObject, uidKey(e.Namespace, o.GetUID()))...)
		m.addReferenced(e, include)
	}
	for _, kind := range []schema.GroupKind{kindStorageClass, kindIngressClass} {
		all := m.Store.List(kind, "")
		slices.SortFunc(all, store.Compare)
		include(all...)
	}
	return c
}

// addReferenced adds the objects that an object depends on.
func (m *Model) addReferenced(e *store.Entry, include func(...*store.Entry)) {
	switch o := e.Object.(type) {
	case *corev1.Service:
		include(m.findSorted(ByService, o.Namespace+"/"+o.Name)...)
	case *corev1.PersistentVolumeClaim:
		include(m.Store.Get(kindVolume, "", o.Spec.VolumeName))
	}
	for _, ref := range inspect.References(e.Object) {
		switch ref.Kind {
		case "Node":
			include(m.Store.Get(kindNode, "", ref.Name))
		case "ConfigMap":
			include(m.Store.Get(kindConfigMap, e.Namespace, ref.Name))
		case "PersistentVolumeClaim":
			claim := m.Store.Get(kindClaim, e.Namespace, ref.Name)
			include(claim)
			if claim != nil {
				include(m.Store.Get(kindVolume, "", claim.Object.(*corev1.PersistentVolumeClaim).Spec.VolumeName))
			}
		}
	}
}

// missingConfigMaps returns, by component, the ConfigMaps that pods reference and that do not exist. Missing
// Secrets are not detected, because the center does not read Secrets.
func (m *Model) missingConfigMaps(namespace string, components []desired.Component, objects []runtime.Object) map[string][]explain.Ref {
	if m.InformerState(kindConfigMap, namespace) != informers.Live {
		return nil
	}
	out := map[string][]explain.Ref{}
	for _, obj := range objects {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		i := slices.IndexFunc(components, func(c desired.Component) bool { return c.WorkloadID == pod.Labels[appkind.KeysOf(pod).Workload] })
		if i < 0 {
			continue
		}
		for _, ref := range inspect.References(pod) {
			missing := explain.Ref{Kind: ref.Kind, Name: ref.Name}
			if ref.Kind == "ConfigMap" && !ref.Optional && m.Store.Get(kindConfigMap, namespace, ref.Name) == nil && !slices.Contains(out[components[i].Name], missing) {
				out[components[i].Name] = append(out[components[i].Name], missing)
			}
		}
	}
	return out
}

// fullyWatchedKinds returns the kinds whose informers are live and unfiltered.
func (m *Model) fullyWatchedKinds(namespace string) []string {
	var out []string
	for _, k := range append(DefaultKinds(), ConfigMapKind()) {
		if k.FieldSelector == "" && m.InformerState(k.GroupKind(), namespace) == informers.Live {
			out = append(out, k.Kind)
		}
	}
	return out
}

// equalRecords reports whether two records look the same to users.
func equalRecords(a, b *Record) bool {
	x, y := *a, *b
	x.RecheckAt, y.RecheckAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}
