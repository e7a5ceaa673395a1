package model

import (
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// buildRecord makes the record of an application; nil if there is none.
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

// buildManagedRecord looks at one that the operator runs.
func (m *Model) buildManagedRecord(ref Ref, now time.Time) *Record {
	e := m.Store.Get(managedGroupKind(ref.Kind), ref.Namespace, ref.Name)
	if e == nil {
		return nil
	}
	in := inspect.Input{Kind: ref.Kind, Now: now, IncludeEdges: true, CompleteKinds: m.fullyWatchedKinds(ref.Namespace)}
	var specs []appsapi.Component
	switch o := e.Object.(type) {
	case *appsapi.AppStack:
		in.App, in.Status, in.Stack, specs = o, o.ApplicationStatus(), o.StackStatus(), appkind.AppStackComponents(o)
	case *appsapi.AppService:
		in.App, in.Status, specs = o, o.ApplicationStatus(), appkind.AppServiceComponents(o)
	case *appsapi.CloudManager:
		in.App, in.Status, in.Stack, specs = o, o.ApplicationStatus(), o.StackStatus(), appkind.CloudManagerComponents(o)
	default:
		return nil
	}
	c := m.collectObjects(m.members(ref, string(in.App.GetUID())))
	in.Objects = c.objects
	owner := desired.Owner{APIVersion: appsapi.GroupVersion.String(), Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name,
		UID: in.App.GetUID(), Generation: in.App.GetGeneration()}
	in.Components = desired.Build(owner, specs, desired.ClusterState{Retained: c.retained})
	in.MissingRefs = m.missingConfigMaps(ref.Namespace, in.Components, c.objects)
	return &Record{Ref: ref, View: inspect.Evaluate(in), Created: in.App.GetCreationTimestamp().Time, Kinds: c.kinds}
}

// members are the objects that say they belong to an application, and what these own.
func (m *Model) members(ref Ref, uid string) []*store.Entry {
	found := m.Store.Find(store.Term{Field: ByApplication, Value: ref.String()})
	if uid != "" {
		found = append(found, m.Store.Find(store.Term{Field: ByInstance, Value: ref.Namespace + "/" + ref.Name})...)
		found = append(found, m.Store.Find(store.Term{Field: ByOwner, Value: uid})...)
	}
	seen := make(map[*store.Entry]bool, len(found))
	for i := 0; i < len(found); i++ {
		e := found[i]
		if seen[e] {
			continue
		}
		seen[e] = true
		if o, err := meta.Accessor(e.Object); err == nil {
			found = append(found, m.Store.Find(store.Term{Field: ByOwner, Value: string(o.GetUID())})...)
		}
	}
	out := make([]*store.Entry, 0, len(seen))
	for e := range seen {
		out = append(out, e)
	}
	// The store has no order, and nobody wants to see one thing after the other change places.
	slices.SortFunc(out, store.Compare)
	return out
}

func (m *Model) findSorted(f store.Field, value string) []*store.Entry {
	all := m.Store.Find(store.Term{Field: f, Value: value})
	slices.SortFunc(all, store.Compare)
	return all
}

// viewObjects is what a view is made of.
type viewObjects struct {
	objects        []runtime.Object
	kinds          []schema.GroupKind
	retained       []desired.RetainedObject
	oldestCreation time.Time
}

// collectObjects adds to the members what is around them: nodes, volumes, classes, endpoints, events, and
// the ConfigMapKind that they use.
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
		include(m.findSorted(ByInvolvedObject, string(o.GetUID()))...)
		m.addReferenced(e, &c, include)
	}
	for _, kind := range []schema.GroupKind{kindStorageClass, kindIngressClass} {
		all := m.Store.List(kind, "")
		slices.SortFunc(all, store.Compare)
		include(all...)
	}
	return c
}

// addReferenced adds what one object needs.
func (m *Model) addReferenced(e *store.Entry, c *viewObjects, include func(...*store.Entry)) {
	switch o := e.Object.(type) {
	case *corev1.Service:
		include(m.findSorted(ByService, o.Namespace+"/"+o.Name)...)
	case *corev1.PersistentVolumeClaim:
		c.retained = append(c.retained, desired.RetainedObject{ID: desired.ID{Kind: desired.KindClaim, Name: o.Name}, Object: o, Claim: o})
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

// missingConfigMaps are, by component, the ConfigMapKind that pods refer to and that are not there. About
// Secrets nothing is known: the center does not read them.
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
		i := slices.IndexFunc(components, func(c desired.Component) bool { return c.WorkloadID == pod.Labels[appsapi.LabelWorkload] })
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

// fullyWatchedKinds are the kinds of which everything is heard.
func (m *Model) fullyWatchedKinds(namespace string) []string {
	var out []string
	for _, k := range append(DefaultKinds(), ConfigMapKind()) {
		if k.FieldSelector == "" && m.InformerState(k.GroupKind(), namespace) == informers.Live {
			out = append(out, k.Kind)
		}
	}
	return out
}

// equalRecords says that nobody would see a difference.
func equalRecords(a, b *Record) bool {
	x, y := *a, *b
	x.RecheckAt, y.RecheckAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}
