package reconcile

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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

type request = reconcile.Request

// countingLimiter counts failures; the search controls time.
type countingLimiter map[request]int

func (t countingLimiter) When(r request) time.Duration { t[r]++; return time.Millisecond }
func (t countingLimiter) Forget(r request)             { delete(t, r) }
func (t countingLimiter) NumRequeues(r request) int    { return t[r] }

// cloneReconciler copies a reconciler and its caches into another world.
func cloneReconciler(from *Reconciler, w *world) *Reconciler {
	out := newModelReconciler(w, from.kind, from.kind.GVK.Kind)
	out.staleBackoff = maps.Clone(from.staleBackoff.(countingLimiter))
	maps.Copy(ownWritesObjects(out), ownWritesObjects(from))
	maps.Copy(ownWritesUIDs(out), ownWritesUIDs(from))
	maps.Copy(ownWritesVerified(out), ownWritesVerified(from))
	cloneApplierCache(modelApplier(out), modelApplier(from))
	for app, windows := range from.drift.apps {
		out.drift.apps[app] = map[appsapi.ObjectReference]*driftWindow{}
		for object, window := range windows {
			out.drift.apps[app][object] = new(*window)
		}
	}
	return out
}

// unexportedField makes an unexported field readable. The cache of an applier is part of a state,
// but there is no other reason to export it.
func unexportedField(v reflect.Value, name string) reflect.Value {
	f := v.FieldByName(name)
	if !f.IsValid() {
		panic("there is no " + name)
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// modelApplier returns the applier of a reconciler of the model.
func modelApplier(r *Reconciler) *apply.Applier { return r.Writer.(*apply.Applier) }

func ownWritesField[M any](r *Reconciler, name string) M {
	return unexportedField(reflect.ValueOf(r.OwnWrites).Elem(), name).Interface().(M)
}

func ownWritesObjects(r *Reconciler) map[types.UID]execute.Application {
	return ownWritesField[map[types.UID]execute.Application](r, "objects")
}

func ownWritesUIDs(r *Reconciler) map[types.NamespacedName]types.UID {
	return ownWritesField[map[types.NamespacedName]types.UID](r, "uidByName")
}

func ownWritesVerified(r *Reconciler) map[types.UID]bool {
	return ownWritesField[map[types.UID]bool](r, "verified")
}

// applierCache returns the cache of an applier: children by owner.
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

// cacheEntryFields are the fields of a cached child. The state key must contain all of them.
var cacheEntryFields = []string{"uid", "fingerprint", "resourceVersion", "generation", "metadataHash", "divergence", "inputHash", "desiredGeneration",
	"latest", "latestAt", "nameConflict", "nameConflictAt", "fieldConflict", "repairs", "contended", "rejection", "createOutcomeUnknown",
	"removed", "driftManagers", "driftObservedAt"}

// applierCacheText formats the cache of an applier, so that equal caches have equal texts. rank
// makes resourceVersions comparable.
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

// childRef returns the object of a cache entry.
func childRef(key reflect.Value) ref {
	keyCopy := reflect.New(key.Type()).Elem()
	keyCopy.Set(key)
	id := keyCopy.FieldByName("ID")
	return ref{id.FieldByName("Kind").FieldByName("Kind").String(), id.FieldByName("Name").String()}
}

func (w *world) cacheEntryText(key, e reflect.Value, rank func(ref, string) string) string {
	r := childRef(key)
	isOldIn := func(v reflect.Value, name string) bool {
		return w.now.Sub(unexportedField(v, name).Interface().(time.Time)) > 10*time.Second
	}
	isOld := func(name string) bool { return isOldIn(e, name) }
	var answer, foreign, conflict, tokens string
	if o, ok := unexportedField(e, "latest").Interface().(client.Object); ok && o != nil {
		version := o.GetResourceVersion()
		answer = fmt.Sprintf("%s %s old=%t", rank(r, version), w.digestAt(version), isOld("latestAt"))
	}
	if f := unexportedField(e, "nameConflict"); !f.IsNil() {
		foreign = fmt.Sprintf("%v old=%t", f.Interface(), isOld("nameConflictAt"))
	}
	if f := unexportedField(e, "fieldConflict"); !f.IsNil() {
		c := f.Elem()
		conflict = fmt.Sprint(unexportedField(c, "err"), unexportedField(c, "uid"), unexportedField(c, "fingerprint"), rank(r, unexportedField(c, "resourceVersion").String()),
			unexportedField(c, "generation"), unexportedField(c, "metadataHash"), isOldIn(c, "at"))
	}
	if l, _ := unexportedField(e, "repairs").Interface().(*rate.Limiter); l != nil {
		tokens = strconv.Itoa(int(l.TokensAt(w.now)))
	}
	return fmt.Sprint(r, unexportedField(e, "uid"), unexportedField(e, "fingerprint"), rank(r, unexportedField(e, "resourceVersion").String()), unexportedField(e, "generation"), unexportedField(e, "metadataHash"),
		unexportedField(e, "divergence"), unexportedField(e, "inputHash"), unexportedField(e, "desiredGeneration"), answer, foreign, conflict, tokens, unexportedField(e, "contended"), unexportedField(e, "rejection").IsNil(), unexportedField(e, "createOutcomeUnknown"),
		unexportedField(e, "removed"), unexportedField(e, "driftManagers"), w.now.Sub(unexportedField(e, "driftObservedAt").Interface().(time.Time)) >= time.Minute)
}

// digestAt returns the digest of the object that was returned with a resourceVersion.
func (w *world) digestAt(version string) string {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		panic(err)
	}
	digest, ok := w.digests.Load(n)
	if !ok {
		panic("unknown resourceVersion " + version)
	}
	return digest.(string)
}

// visitApplierVersions visits the resourceVersions in the cache of an applier.
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

// reconcilerStateText formats the caches of a reconciler.
func reconcilerStateText(w *world, r *Reconciler, rank func(ref, string) string) string {
	var lines []string
	for uid, obj := range ownWritesObjects(r) {
		version := obj.GetResourceVersion()
		lines = append(lines, fmt.Sprint("wrote ", uid, " ", rank(ref{r.kind.GVK.Kind, obj.GetName()}, version), " ", w.digestAt(version)))
	}
	for name, uid := range ownWritesUIDs(r) {
		lines = append(lines, fmt.Sprint("named ", name, " ", uid))
	}
	for uid := range ownWritesVerified(r) {
		lines = append(lines, fmt.Sprint("present ", uid))
	}
	for req, n := range r.staleBackoff.(countingLimiter) {
		lines = append(lines, fmt.Sprint("stale ", req, " ", min(n, maxStaleRetries)))
	}
	for app, windows := range r.drift.apps {
		for object, window := range windows {
			lines = append(lines, fmt.Sprint("drift ", app, object, window.pending != nil, w.now.Sub(window.reported) >= driftReportInterval))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n" + w.applierCacheText(modelApplier(r), rank)
}

// lastWrittenGeneration is the generation of our last write.
func lastWrittenGeneration(r *Reconciler, uid types.UID) int64 {
	if obj, ok := ownWritesObjects(r)[uid]; ok {
		return obj.GetGeneration()
	}
	return 0
}

func visitReconcilerVersions(r *Reconciler, visit func(ref, string)) {
	for _, obj := range ownWritesObjects(r) {
		visit(ref{r.kind.GVK.Kind, obj.GetName()}, obj.GetResourceVersion())
	}
	visitApplierVersions(modelApplier(r), visit)
}
