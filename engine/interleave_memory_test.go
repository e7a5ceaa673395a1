package engine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/apply"
)

type request = reconcile.Request

// tries counts; time is a matter of the search.
type tries map[request]int

func (t tries) When(r request) time.Duration { t[r]++; return time.Millisecond }
func (t tries) Forget(r request)             { delete(t, r) }
func (t tries) NumRequeues(r request) int    { return t[r] }

// cloneMind copies a reconciler with what it remembers into another world.
func cloneMind[T Object](from *reconciler[T], w *world) *reconciler[T] {
	out := newMind(w, from.kind, from.gvk.Kind)
	out.stale = maps.Clone(from.stale.(tries))
	maps.Copy(out.written.objects, from.written.objects)
	maps.Copy(out.written.names, from.written.names)
	maps.Copy(out.written.present, from.written.present)
	cloneMemory(out.applier, from.applier)
	return out
}

// open makes a field that nobody else may see readable. What an applier remembers is part
// of a state, and no reason to show it to everybody.
func open(v reflect.Value, name string) reflect.Value {
	f := v.FieldByName(name)
	if !f.IsValid() {
		panic("there is no " + name)
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// ownersIn is the memory of an applier: children by owner.
func ownersIn(a *apply.Applier) reflect.Value {
	return open(open(reflect.ValueOf(a).Elem(), "memory"), "owners")
}

func cloneMemory(to, from *apply.Applier) {
	source, target := ownersIn(from), ownersIn(to)
	for owner, children := range source.Seq2() {
		inner := reflect.MakeMap(children.Type())
		for child, e := range children.Seq2() {
			made := reflect.New(e.Type().Elem())
			made.Elem().Set(e.Elem())
			if limiter := open(made.Elem(), "repairs"); !limiter.IsNil() {
				another := reflect.New(limiter.Type().Elem())
				another.Elem().Set(limiter.Elem())
				limiter.Set(another)
			}
			inner.SetMapIndex(child, made)
		}
		target.SetMapIndex(owner, inner)
	}
}

// remembered are the fields of what an applier remembers of a child. The digest of a state
// has to have them all.
var rememberedFields = []string{"uid", "wish", "resourceVersion", "generation", "metadata", "projected", "basis", "asked",
	"answer", "at", "foreign", "foreignAt", "repairs", "fight", "refusal", "tried"}

// memoryText writes down what an applier remembers, so that equal memories have equal
// texts. number makes resourceVersions comparable.
func (w *world) memoryText(a *apply.Applier, number func(ref, string) string) string {
	var lines []string
	for owner, children := range ownersIn(a).Seq2() {
		for child, e := range children.Seq2() {
			lines = append(lines, fmt.Sprint(owner)+" "+w.entryText(child, e.Elem(), number))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// childOf is the object that an entry is about.
func childOf(key reflect.Value) ref {
	made := reflect.New(key.Type()).Elem()
	made.Set(key)
	id := made.FieldByName("ID")
	return ref{id.FieldByName("Kind").FieldByName("Kind").String(), id.FieldByName("Name").String()}
}

func (w *world) entryText(key, e reflect.Value, number func(ref, string) string) string {
	r := childOf(key)
	age := func(name string) bool { return w.now.Sub(open(e, name).Interface().(time.Time)) > 10*time.Second }
	var answer, foreign, tokens string
	if o, ok := open(e, "answer").Interface().(client.Object); ok && o != nil {
		version := o.GetResourceVersion()
		answer = fmt.Sprintf("%s %s old=%t", number(r, version), w.digestAt(version), age("at"))
	}
	if f := open(e, "foreign"); !f.IsNil() {
		foreign = fmt.Sprintf("%v old=%t", f.Interface(), age("foreignAt"))
	}
	if l, _ := open(e, "repairs").Interface().(*rate.Limiter); l != nil {
		tokens = strconv.Itoa(int(l.TokensAt(w.now)))
	}
	return fmt.Sprint(r, open(e, "uid"), open(e, "wish"), number(r, open(e, "resourceVersion").String()), open(e, "generation"), open(e, "metadata"),
		open(e, "projected"), open(e, "basis"), open(e, "asked"), answer, foreign, tokens, open(e, "fight"), open(e, "refusal").IsNil(), open(e, "tried"))
}

// digestAt is what was answered with a resourceVersion.
func (w *world) digestAt(version string) string {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		panic(err)
	}
	digest, ok := w.digests.Load(n)
	if !ok {
		panic("nobody was answered " + version)
	}
	return digest.(string)
}

// numbersIn are the resourceVersions that a memory has.
func numbersIn(a *apply.Applier, note func(ref, string)) {
	for _, children := range ownersIn(a).Seq2() {
		for child, e := range children.Seq2() {
			r := childOf(child)
			note(r, open(e.Elem(), "resourceVersion").String())
			if o, ok := open(e.Elem(), "answer").Interface().(client.Object); ok && o != nil {
				note(r, o.GetResourceVersion())
			}
		}
	}
}

// mindText writes down what a reconciler remembers.
func mindText[T Object](w *world, r *reconciler[T], number func(ref, string) string) string {
	var lines []string
	for uid, obj := range r.written.objects {
		version := obj.GetResourceVersion()
		lines = append(lines, fmt.Sprint("wrote ", uid, " ", number(ref{r.gvk.Kind, obj.GetName()}, version), " ", w.digestAt(version)))
	}
	for name, uid := range r.written.names {
		lines = append(lines, fmt.Sprint("named ", name, " ", uid))
	}
	for uid := range r.written.present {
		lines = append(lines, fmt.Sprint("present ", uid))
	}
	for req, n := range r.stale.(tries) {
		lines = append(lines, fmt.Sprint("stale ", req, " ", min(n, staleInARow)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n" + w.memoryText(r.applier, number)
}

// generationWritten is the generation of our own last write.
func generationWritten[T Object](r *reconciler[T], uid types.UID) int64 {
	if obj, ok := r.written.objects[uid]; ok {
		return obj.GetGeneration()
	}
	return 0
}

func numbersWritten[T Object](r *reconciler[T], note func(ref, string)) {
	for _, obj := range r.written.objects {
		note(ref{r.gvk.Kind, obj.GetName()}, obj.GetResourceVersion())
	}
	numbersIn(r.applier, note)
}
