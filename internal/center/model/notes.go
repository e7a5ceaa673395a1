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

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/diary"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/fields"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// record writes into the diary of applications what became of an object of theirs.
func (m *Model) record(c store.Change, refs []Ref) {
	if m.Diary == nil || len(refs) == 0 {
		return
	}
	e, ok := m.entry(c)
	if !ok {
		return
	}
	slices.SortFunc(refs, Ref.Compare)
	for _, ref := range slices.Compact(refs) {
		m.Diary.Write(ref.String(), e)
	}
}

// entry is what a change looks like in a diary. Pods come and go by themselves: of them only how
// they ended is worth a word, and of what else controllers make, nothing.
func (m *Model) entry(c store.Change) (diary.Entry, bool) {
	last := c.After
	if last == nil {
		last = c.Before
	}
	if last.Object == nil || isMade(last.Object) {
		return diary.Entry{}, false
	}
	e := diary.Entry{Object: objectOf(last)}
	pod, isPod := last.Object.(*corev1.Pod)
	switch {
	case c.After == nil && isPod:
		e.What, e.Last = diary.Deleted, diary.LastOf(pod)
	case c.After == nil:
		e.What = diary.Deleted
	case isPod:
		return diary.Entry{}, false
	case c.Before == nil || c.Before.UID != c.After.UID:
		e.What, e.By = diary.Created, writer(last.Object)
		if o, err := meta.Accessor(last.Object); err != nil || o.GetCreationTimestamp().Time.Before(m.begun) {
			return diary.Entry{}, false // it was there before we looked
		}
	default:
		e.What, e.By = diary.Changed, writer(last.Object)
		e.Fields = declared(fields.Between(last.Kind().Kind, content(c.Before.Object), content(c.After.Object)))
		if len(e.Fields) == 0 {
			return diary.Entry{}, false
		}
	}
	return e, true
}

func isMade(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.Event, *discoveryv1.EndpointSlice, *appsv1.ReplicaSet, *corev1.Node, *corev1.PersistentVolume:
		return true
	}
	return false
}

// declared leaves out what only reports, and values that may be secret: who reads the history may
// not be who may read the object.
func declared(all []fields.Field) []fields.Field {
	all = slices.DeleteFunc(all, func(f fields.Field) bool { return f.Path == "status" || strings.HasPrefix(f.Path, "status.") })
	for i := range all {
		f := &all[i]
		if !reflect.DeepEqual(redact.At(f.Path, f.Old), f.Old) || !reflect.DeepEqual(redact.At(f.Path, f.New), f.New) {
			f.Redacted, f.Old, f.New = true, nil, nil
		}
	}
	return all
}

func content(obj runtime.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil
	}
	return out
}

// writer is who wrote an object last.
func writer(obj runtime.Object) string {
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

func objectOf(e *store.Entry) answer.Object {
	k := e.Kind()
	out := answer.Object{Group: k.Group, Kind: k.Kind, Namespace: e.Namespace, Name: e.Name}
	if o, err := meta.Accessor(e.Object); err == nil {
		out.UID = string(o.GetUID())
	}
	return out
}

// note writes what became of an application as a whole: causes that came and went, and how it is.
func (m *Model) note(before, after *Record) {
	if m.Diary == nil || before == nil || after == nil {
		return
	}
	write := func(what string, o explain.Object, code, sentence string) {
		m.Diary.Write(after.Ref.String(), diary.Entry{What: what, Code: code, Sentence: sentence,
			Object: answer.ObjectOf(o)})
	}
	for _, c := range after.Causes {
		if !hasCause(before.Causes, c) {
			write(diary.CauseOpened, c.Object, string(c.Code), c.Sentence)
		}
	}
	for _, c := range before.Causes {
		if !hasCause(after.Causes, c) {
			write(diary.CauseClosed, c.Object, string(c.Code), c.Sentence)
		}
	}
	if before.Health != after.Health || before.Ready != after.Ready {
		self := explain.Object{Kind: after.Ref.Kind, Namespace: after.Ref.Namespace, Name: after.Ref.Name}
		sentence := after.Message
		if !after.Ref.IsOurs() {
			sentence = "" // it is about objects that not everybody may see who sees the application
		}
		write(diary.Health, self, string(after.Health), sentence)
	}
}

func hasCause(all []explain.Cause, c explain.Cause) bool {
	return slices.ContainsFunc(all, func(x explain.Cause) bool {
		return x.Code == c.Code && x.Object == c.Object && x.Sentence == c.Sentence
	})
}
