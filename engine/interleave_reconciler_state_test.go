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

// countingLimiter counts; time is a matter of the search.
type countingLimiter map[request]int

func (t countingLimiter) When(r request) time.Duration { t[r]++; return time.Millisecond }
func (t countingLimiter) Forget(r request)             { delete(t, r) }
func (t countingLimiter) NumRequeues(r request) int    { return t[r] }

// cloneReconciler copies a reconciler with what it remembers into another world.
func cloneReconciler[T Object](from *reconciler[T], w *world) *reconciler[T] {
	out := newModelReconciler(w, from.kind, from.gvk.Kind)
	out.staleBackoff = maps.Clone(from.staleBackoff.(countingLimiter))
	maps.Copy(out.ownWrites.objects, from.ownWrites.objects)
	maps.Copy(out.ownWrites.uidByName, from.ownWrites.uidByName)
	maps.Copy(out.ownWrites.verified, from.ownWrites.verified)
	cloneApplierCache(out.applier, from.applier)
	return out
}

// unexportedField makes a field that nobody else may see readable. What an applier remembers is part
// of a state, and no reason to show it to everybody.
func unexportedField(v reflect.Value, name string) reflect.Value {
	f := v.FieldByName(name)
	if !f.IsValid() {
		panic("there is no " + name)
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// applierCache is the memory of an applier: children by owner.
func applierCache(a *apply.Applier) reflect.Value {
	return unexportedField(unexportedField(reflect.ValueOf(a).Elem(), "childCache"), "owners")
}

func cloneApplierCache(to, from *apply.Applier) {
	source, target := applierCache(from), applierCache(to)
	for owner, children := range source.Seq2() {
		childrenCopy := reflect.MakeMap(children.Type())
		for child, e := range children.Seq2() {
			entryCopy := reflect.New(e.Type().Elem())
			entryCopy.Elem().Set(e.Elem())
			if limiter := unexportedField(entryCopy.Elem(), "repairs"); !limiter.IsNil() {
				limiterCopy := reflect.New(limiter.Type().Elem())
				limiterCopy.Elem().Set(limiter.Elem())
				limiter.Set(limiterCopy)
			}
			childrenCopy.SetMapIndex(child, entryCopy)
		}
		target.SetMapIndex(owner, childrenCopy)
	}
}

// remembered are the fields of what an applier remembers of a child. The digest of a state
// has to have them all.
var cacheEntryFields = []string{"uid", "fingerprint", "resourceVersion", "generation", "metadataHash", "divergence", "inputHash", "desiredGeneration",
	"latest", "latestAt", "nameConflict", "nameConflictAt", "repairs", "contended", "rejection", "createOutcomeUnknown"}

// applierCacheText writes down what an applier remembers, so that equal memories have equal
// texts. number makes resourceVersions comparable.
func (w *world) applierCacheText(a *apply.Applier, rank func(ref, string) string) string {
	var lines []string
	for owner, children := range applierCache(a).Seq2() {
		for child, e := range children.Seq2() {
			lines = append(lines, fmt.Sprint(owner)+" "+w.cacheEntryText(child, e.Elem(), rank))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// childRef is the object that an entry is about.
func childRef(key reflect.Value) ref {
	keyCopy := reflect.New(key.Type()).Elem()
	keyCopy.Set(key)
	id := keyCopy.FieldByName("ID")
	return ref{id.FieldByName("Kind").FieldByName("Kind").String(), id.FieldByName("Name").String()}
}

func (w *world) cacheEntryText(key, e reflect.Value, rank func(ref, string) string) string {
	r := childRef(key)
	isOld := func(name string) bool {
		return w.now.Sub(unexportedField(e, name).Interface().(time.Time)) > 10*time.Second
	}
	var answer, foreign, tokens string
	if o, ok := unexportedField(e, "latest").Interface().(client.Object); ok && o != nil {
		version := o.GetResourceVersion()
		answer = fmt.Sprintf("%s %s old=%t", rank(r, version), w.digestAt(version), isOld("latestAt"))
	}
	if f := unexportedField(e, "nameConflict"); !f.IsNil() {
		foreign = fmt.Sprintf("%v old=%t", f.Interface(), isOld("nameConflictAt"))
	}
	if l, _ := unexportedField(e, "repairs").Interface().(*rate.Limiter); l != nil {
		tokens = strconv.Itoa(int(l.TokensAt(w.now)))
	}
	return fmt.Sprint(r, unexportedField(e, "uid"), unexportedField(e, "fingerprint"), rank(r, unexportedField(e, "resourceVersion").String()), unexportedField(e, "generation"), unexportedField(e, "metadataHash"),
		unexportedField(e, "divergence"), unexportedField(e, "inputHash"), unexportedField(e, "desiredGeneration"), answer, foreign, tokens, unexportedField(e, "contended"), unexportedField(e, "rejection").IsNil(), unexportedField(e, "createOutcomeUnknown"))
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

// visitApplierVersions are the resourceVersions that a memory has.
func visitApplierVersions(a *apply.Applier, visit func(ref, string)) {
	for _, children := range applierCache(a).Seq2() {
		for child, e := range children.Seq2() {
			r := childRef(child)
			visit(r, unexportedField(e.Elem(), "resourceVersion").String())
			if o, ok := unexportedField(e.Elem(), "latest").Interface().(client.Object); ok && o != nil {
				visit(r, o.GetResourceVersion())
			}
		}
	}
}

// reconcilerStateText writes down what a reconciler remembers.
func reconcilerStateText[T Object](w *world, r *reconciler[T], rank func(ref, string) string) string {
	var lines []string
	for uid, obj := range r.ownWrites.objects {
		version := obj.GetResourceVersion()
		lines = append(lines, fmt.Sprint("wrote ", uid, " ", rank(ref{r.gvk.Kind, obj.GetName()}, version), " ", w.digestAt(version)))
	}
	for name, uid := range r.ownWrites.uidByName {
		lines = append(lines, fmt.Sprint("named ", name, " ", uid))
	}
	for uid := range r.ownWrites.verified {
		lines = append(lines, fmt.Sprint("present ", uid))
	}
	for req, n := range r.staleBackoff.(countingLimiter) {
		lines = append(lines, fmt.Sprint("stale ", req, " ", min(n, maxStaleRetries)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n" + w.applierCacheText(r.applier, rank)
}

// lastWrittenGeneration is the generation of our own last write.
func lastWrittenGeneration[T Object](r *reconciler[T], uid types.UID) int64 {
	if obj, ok := r.ownWrites.objects[uid]; ok {
		return obj.GetGeneration()
	}
	return 0
}

func visitReconcilerVersions[T Object](r *reconciler[T], visit func(ref, string)) {
	for _, obj := range r.ownWrites.objects {
		visit(ref{r.gvk.Kind, obj.GetName()}, obj.GetResourceVersion())
	}
	visitApplierVersions(r.applier, visit)
}
