package model

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// recordChange writes into the diary of applications what became of an object of theirs.
func (m *Model) recordChange(c store.Change, refs []Ref) {
	if m.Activity == nil || len(refs) == 0 {
		return
	}
	e, ok := m.activityEntry(c)
	if !ok {
		return
	}
	slices.SortFunc(refs, Ref.Compare)
	for _, ref := range slices.Compact(refs) {
		m.Activity.Add(ref.String(), e)
	}
}

// activityEntry is what a change looks like in a diary. Pods come and go by themselves: of them only how
// they ended is worth a word, and of what else controllers make, nothing.
func (m *Model) activityEntry(c store.Change) (activity.Entry, bool) {
	last := c.After
	if last == nil {
		last = c.Before
	}
	if last.Object == nil || isControllerGenerated(last.Object) {
		return activity.Entry{}, false
	}
	e := activity.Entry{Object: objectRef(last)}
	pod, isPod := last.Object.(*corev1.Pod)
	switch {
	case c.After == nil && isPod:
		e.Type, e.PodState = activity.Deleted, activity.PodStateOf(pod)
	case c.After == nil:
		e.Type = activity.Deleted
	case isPod:
		return activity.Entry{}, false
	case c.Before == nil || c.Before.UID != c.After.UID:
		e.Type, e.FieldManager = activity.Created, lastFieldManager(last.Object)
		if o, err := meta.Accessor(last.Object); err != nil || o.GetCreationTimestamp().Time.Before(m.started) {
			return activity.Entry{}, false // it was there before we looked
		}
	default:
		e.Type, e.FieldManager = activity.Changed, lastFieldManager(last.Object)
		e.Fields = redactedSpecChanges(objdiff.Diff(last.Kind().Kind, toUnstructured(c.Before.Object), toUnstructured(c.After.Object)))
		if len(e.Fields) == 0 {
			return activity.Entry{}, false
		}
	}
	return e, true
}

func isControllerGenerated(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.Event, *discoveryv1.EndpointSlice, *appsv1.ReplicaSet, *corev1.Node, *corev1.PersistentVolume:
		return true
	}
	return false
}

// redactedSpecChanges leaves out what only reports, and values that may be secret: who reads the history may
// not be who may read the object.
func redactedSpecChanges(all []objdiff.FieldChange) []objdiff.FieldChange {
	all = slices.DeleteFunc(all, func(f objdiff.FieldChange) bool { return f.Path == "status" || strings.HasPrefix(f.Path, "status.") })
	for i := range all {
		f := &all[i]
		if !reflect.DeepEqual(redact.ValueAt(f.Path, f.Old), f.Old) || !reflect.DeepEqual(redact.ValueAt(f.Path, f.New), f.New) {
			f.Redacted, f.Old, f.New = true, nil, nil
		}
	}
	return all
}

func toUnstructured(obj runtime.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil
	}
	return out
}

// lastFieldManager is who wrote an object last.
func lastFieldManager(obj runtime.Object) string {
	o, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	var newest metav1.ManagedFieldsEntry
	for _, f := range o.GetManagedFields() {
		if newest.Time == nil || f.Time != nil && !f.Time.Before(newest.Time) {
			newest = f
		}
	}
	return newest.Manager
}

func objectRef(e *store.Entry) wire.Object {
	k := e.Kind()
	out := wire.Object{Group: k.Group, Kind: k.Kind, Namespace: e.Namespace, Name: e.Name}
	if o, err := meta.Accessor(e.Object); err == nil {
		out.UID = string(o.GetUID())
	}
	return out
}

// recordTransition writes what became of an application as a whole: causes that came and went, and how it is.
func (m *Model) recordTransition(before, after *Record) {
	if m.Activity == nil || before == nil || after == nil {
		return
	}
	write := func(what string, o explain.ObjectRef, code, sentence string) {
		m.Activity.Add(after.Ref.String(), activity.Entry{Type: what, Code: code, Sentence: sentence,
			Object: wire.NewObject(o)})
	}
	for _, c := range after.Causes {
		if !hasCause(before.Causes, c) {
			write(activity.CauseOpened, c.Object, string(c.Code), c.Message)
		}
	}
	for _, c := range before.Causes {
		if !hasCause(after.Causes, c) {
			write(activity.CauseClosed, c.Object, string(c.Code), c.Message)
		}
	}
	if before.Health != after.Health || before.Ready != after.Ready {
		self := explain.ObjectRef{Kind: after.Ref.Kind, Namespace: after.Ref.Namespace, Name: after.Ref.Name}
		sentence := after.Message
		if !after.Ref.IsManaged() {
			sentence = "" // it is about objects that not everybody may see who sees the application
		}
		write(activity.HealthChanged, self, string(after.Health), sentence)
	}
}

func hasCause(all []explain.Cause, c explain.Cause) bool {
	return slices.ContainsFunc(all, func(x explain.Cause) bool {
		return x.Code == c.Code && x.Object == c.Object && x.Message == c.Message
	})
}
