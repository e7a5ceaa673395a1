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
	"github.com/holdfast-dev/holdfast/internal/center/registry"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/kinds"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// look makes the record of an application; nil if there is none.
func (m *Model) look(ref Ref, now time.Time) *Record {
	if ref.IsOurs() {
		return m.our(ref, now)
	}
	members := m.members(ref, "")
	if len(members) == 0 {
		return nil
	}
	c := m.collect(members)
	r := &Record{Ref: ref, Created: c.oldest, Kinds: c.kinds}
	r.View = view.Group(view.GroupInput{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Objects: c.objects, Whole: m.whole(ref.Namespace), Now: now})
	return r
}

// our looks at one that the operator runs.
func (m *Model) our(ref Ref, now time.Time) *Record {
	e := m.Store.Get(ours(ref.Kind), ref.Namespace, ref.Name)
	if e == nil {
		return nil
	}
	in := view.Input{Kind: ref.Kind, Now: now, Edges: true, Whole: m.whole(ref.Namespace)}
	var specs []appsapi.Component
	switch o := e.Object.(type) {
	case *appsapi.AppStack:
		in.App, in.Status, in.Stack, specs = o, o.ApplicationStatus(), o.StackStatus(), kinds.AppStack(o)
	case *appsapi.AppService:
		in.App, in.Status, specs = o, o.ApplicationStatus(), kinds.AppService(o)
	case *appsapi.CloudManager:
		in.App, in.Status, in.Stack, specs = o, o.ApplicationStatus(), o.StackStatus(), kinds.CloudManager(o)
	default:
		return nil
	}
	c := m.collect(m.members(ref, string(in.App.GetUID())))
	in.Objects = c.objects
	owner := desired.Owner{APIVersion: appsapi.GroupVersion.String(), Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name,
		UID: in.App.GetUID(), Generation: in.App.GetGeneration()}
	in.Components = desired.For(owner, specs, desired.Known{Kept: c.kept})
	in.Absent = m.absent(ref.Namespace, in.Components, c.objects)
	return &Record{Ref: ref, View: view.Of(in), Created: in.App.GetCreationTimestamp().Time, Kinds: c.kinds}
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

func (m *Model) find(f store.Field, value string) []*store.Entry {
	all := m.Store.Find(store.Term{Field: f, Value: value})
	slices.SortFunc(all, store.Compare)
	return all
}

// collection is what a view is made of.
type collection struct {
	objects []runtime.Object
	kinds   []schema.GroupKind
	kept    []desired.Kept
	oldest  time.Time
}

// collect adds to the members what is around them: nodes, volumes, classes, endpoints, events, and
// the ConfigMaps that they use.
func (m *Model) collect(members []*store.Entry) collection {
	var c collection
	around := map[*store.Entry]bool{}
	note := func(entries ...*store.Entry) {
		for _, e := range entries {
			if e != nil && e.Object != nil && !around[e] {
				around[e] = true
				c.objects = append(c.objects, e.Object)
			}
		}
	}
	note(members...)
	for _, e := range members {
		if kind := e.Kind().GroupKind(); !slices.Contains(c.kinds, kind) {
			c.kinds = append(c.kinds, kind)
		}
		o, err := meta.Accessor(e.Object)
		if err != nil {
			continue
		}
		if at := o.GetCreationTimestamp().Time; c.oldest.IsZero() || at.Before(c.oldest) {
			c.oldest = at
		}
		note(m.find(ByInvolved, string(o.GetUID()))...)
		m.surround(e, &c, note)
	}
	for _, kind := range []schema.GroupKind{kindClass, kindIngCl} {
		all := m.Store.In(kind, "")
		slices.SortFunc(all, store.Compare)
		note(all...)
	}
	return c
}

// surround adds what one object needs.
func (m *Model) surround(e *store.Entry, c *collection, note func(...*store.Entry)) {
	switch o := e.Object.(type) {
	case *corev1.Service:
		note(m.find(ByService, o.Namespace+"/"+o.Name)...)
	case *corev1.PersistentVolumeClaim:
		c.kept = append(c.kept, desired.Kept{ID: desired.ID{Kind: desired.KindClaim, Name: o.Name}, Object: o, Claim: o})
		note(m.Store.Get(kindVolume, "", o.Spec.VolumeName))
	}
	for _, ref := range view.References(e.Object) {
		switch ref.Kind {
		case "Node":
			note(m.Store.Get(kindNode, "", ref.Name))
		case "ConfigMap":
			note(m.Store.Get(kindMap, e.Namespace, ref.Name))
		case "PersistentVolumeClaim":
			claim := m.Store.Get(kindClaim, e.Namespace, ref.Name)
			note(claim)
			if claim != nil {
				note(m.Store.Get(kindVolume, "", claim.Object.(*corev1.PersistentVolumeClaim).Spec.VolumeName))
			}
		}
	}
}

// absent are, by component, the ConfigMaps that pods refer to and that are not there. About
// Secrets nothing is known: the center does not read them.
func (m *Model) absent(namespace string, components []desired.Component, objects []runtime.Object) map[string][]explain.Ref {
	if m.State(kindMap, namespace) != registry.Live {
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
		for _, ref := range view.References(pod) {
			missing := explain.Ref{Kind: ref.Kind, Name: ref.Name}
			if ref.Kind == "ConfigMap" && !ref.Optional && m.Store.Get(kindMap, namespace, ref.Name) == nil && !slices.Contains(out[components[i].Name], missing) {
				out[components[i].Name] = append(out[components[i].Name], missing)
			}
		}
	}
	return out
}

// whole are the kinds of which everything is heard.
func (m *Model) whole(namespace string) []string {
	var out []string
	for _, k := range append(Kinds(), ConfigMaps()) {
		if k.Fields == "" && m.State(k.GroupKind(), namespace) == registry.Live {
			out = append(out, k.Kind)
		}
	}
	return out
}

// same says that nobody would see a difference.
func same(a, b *Record) bool {
	x, y := *a, *b
	x.Again, y.Again = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}
