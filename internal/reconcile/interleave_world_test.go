package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

const (
	// maxCacheLag limits how many events of a kind a cache may lag behind.
	maxCacheLag = 3
	// maxUndelivered limits how many events the handlers may lag behind the cache.
	maxUndelivered = 2
)

// kindCache is the cache of one kind, and the events that it has not received yet.
//
//	before ── recent[:seen] ──► shown ── recent[seen:] ──► server
type kindCache struct {
	oldList  map[string]*objectVersion // for a restart with an outdated list
	recent   []*objectVersion
	position int
	objects  map[string]*objectVersion
	// undelivered are the changes of the cache that no handler has received yet.
	undelivered []cacheEvent
}

// cacheEvent is a change of a cache: before is nil for a create, after is nil for a delete.
type cacheEvent struct{ before, after *objectVersion }

func (f *kindCache) clone() *kindCache {
	return &kindCache{maps.Clone(f.oldList), slices.Clone(f.recent), f.position, maps.Clone(f.objects), slices.Clone(f.undelivered)}
}

// isSelected reports whether a cache selects an object.
func (v *objectVersion) isSelected() bool {
	return v.kind == "AppService" || v.kind == "AppStack" || v.object.GetLabels()[appsapi.LabelManagedBy] == appsapi.ManagedBy
}

// applyToCache applies one event to a cache.
func applyToCache(cache map[string]*objectVersion, v *objectVersion) {
	if v.deleted || !v.isSelected() {
		delete(cache, v.name)
		return
	}
	cache[v.name] = v
}

// queueEntry is when an object is reconciled.
type queueEntry struct {
	queued bool
	// timer is when it is reconciled if nothing happens; 0 means never.
	timer time.Duration
}

// podState is the state of the pods of a workload, as the simulated controllers have it.
type podState struct {
	template string
	image    string
	ready    bool
}

// world is one state of the whole model.
type world struct {
	server   *server
	scenario *scenario
	bug      injectedBug
	digests  *sync.Map // of returned objects, by resourceVersion

	caches            map[string]*kindCache
	serviceReconciler *Reconciler
	stackReconciler   *Reconciler
	queue             map[ref]queueEntry
	pods              map[types.UID]podState
	now               time.Time
	editsDone         int // number of completed user edits
	budget            budget

	ruleState
	reconciling ref    // the object that is being reconciled
	violation   string // the first violated rule
	lastErr     error  // the error of the last reconcile
	liveReads   atomic.Int64
}

// budget limits the faults that may still happen.
type budget struct{ crashes, lostResponses, ticks, resyncs int }

var serviceKind = Kind{
	Kind: execute.Kind{
		Keys: appsapi.DefaultKeys,
		New:  func() execute.Application { return &appsapi.AppService{} },
		Components: func(app execute.Application) []desired.ExpandedComponent {
			spec := &app.(*appsapi.AppService).Spec
			components := []appsapi.Component{{Name: app.GetName(), ResourceName: app.GetName(), Service: &spec.ServiceComponent}}
			return desired.SetOperations(desired.ExpandComponents(components), &spec.Operations)
		},
	},
	UpdateStatus: func(app execute.Application, components []ComponentStatus) {
		app.(*appsapi.AppService).Status.Replicas = components[0].Replicas
	},
}

var stackKind = Kind{Kind: execute.Kind{
	Keys: appsapi.DefaultKeys,
	New:  func() execute.Application { return &appsapi.AppStack{} },
	Components: func(stack execute.Application) []desired.ExpandedComponent {
		return desired.ExpandComponents(stack.(*appsapi.AppStack).Spec.Components)
	},
	History: func(stack execute.Application) (any, int32) {
		return appsapi.AppStackSpec{Components: stack.(*appsapi.AppStack).Spec.Components}, 0
	},
}}

func newWorld(in *scenario, b budget, bug injectedBug) *world {
	w := &world{server: newServer(), scenario: in, bug: bug, digests: &sync.Map{}, caches: map[string]*kindCache{},
		queue: map[ref]queueEntry{}, pods: map[types.UID]podState{}, now: epoch, budget: b, ruleState: newRuleState()}
	for _, k := range modelKinds {
		w.caches[k.name] = &kindCache{oldList: map[string]*objectVersion{}, objects: map[string]*objectVersion{}}
	}
	w.serviceReconciler, w.stackReconciler = newModelReconciler(w, serviceKind, "AppService"), newModelReconciler(w, stackKind, "AppStack")
	w.server.onChange = w.checkRules
	return w
}

func (w *world) clone() *world {
	out := &world{server: w.server.clone(), scenario: w.scenario, bug: w.bug, digests: w.digests, caches: map[string]*kindCache{},
		queue: maps.Clone(w.queue), pods: maps.Clone(w.pods), now: w.now, editsDone: w.editsDone, budget: w.budget, ruleState: w.ruleState.clone()}
	for k, f := range w.caches {
		out.caches[k] = f.clone()
	}
	out.serviceReconciler, out.stackReconciler = cloneReconciler(w.serviceReconciler, out), cloneReconciler(w.stackReconciler, out)
	out.server.onChange = out.checkRules
	return out
}

// Now is the clock of the reconcilers.
func (w *world) Now() time.Time { return w.now }

// Since returns the elapsed time.
func (w *world) Since(t time.Time) time.Duration { return w.now.Sub(t) }

// publish queues the written changes for the caches, which receive them later. The order of writes
// to two objects of a kind within one reconcile is random, and nothing depends on it.
func (w *world) publish() {
	changes := w.server.changes
	w.server.changes = nil
	slices.SortStableFunc(changes, func(a, b *objectVersion) int { return compareRefs(a.ref, b.ref) })
	for _, v := range changes {
		f := w.caches[v.kind]
		f.recent = append(f.recent, v)
	}
	for _, k := range modelKinds {
		f := w.caches[k.name]
		for len(f.recent) > maxCacheLag {
			if f.position == 0 {
				w.updateCache(k.name) // the cache has reached its maximum lag
			}
			applyToCache(f.oldList, f.recent[0])
			f.recent, f.position = f.recent[1:], f.position-1
		}
	}
}

// updateCache advances the cache of a kind by one event.
func (w *world) updateCache(kind string) {
	f := w.caches[kind]
	now := f.recent[f.position]
	before := f.objects[now.name]
	f.position++
	applyToCache(f.objects, now)
	after := f.objects[now.name]
	switch {
	case before == nil && after == nil:
		return
	case after == nil && now.deleted:
		before = now // the last version
	}
	f.undelivered = append(f.undelivered, cacheEvent{before, after})
	if len(f.undelivered) > maxUndelivered {
		w.deliverEvent(kind)
	}
}

// deliverEvent passes a change of the cache to the handlers of the engine.
func (w *world) deliverEvent(kind string) {
	f := w.caches[kind]
	n := f.undelivered[0]
	f.undelivered = f.undelivered[1:]
	v := cmp.Or(n.after, n.before)
	if w.bug.dropUpdatesOf == v.kind && n.before != nil && n.after != nil {
		return
	}
	dispatch(w, w.serviceReconciler, v, n.before, n.after)
	dispatch(w, w.stackReconciler, v, n.before, n.after)
}

func dispatch(w *world, r *Reconciler, v, before, after *objectVersion) {
	q := modelQueue{w: w, kind: r.kind.GVK.Kind}
	if v.kind == r.kind.GVK.Kind {
		if before == nil || after == nil || !r.OwnWrites.IsOwnWrite(before.cached, after.cached) {
			q.enqueue(v.name)
		}
		return
	}
	group := newEmpty(v.kind).GetObjectKind().GroupVersionKind()
	if group.Group == appsapi.GroupVersion.Group {
		return
	}
	h := watcher{keys: appsapi.DefaultKeys, owner: r.kind.GVK.GroupKind(), applier: modelApplier(r)}.childHandler(group)
	ctx := context.Background()
	switch {
	case before == nil:
		h.Create(ctx, event.CreateEvent{Object: after.cached}, q)
	case after == nil:
		h.Delete(ctx, event.DeleteEvent{Object: before.cached}, q)
	default:
		h.Update(ctx, event.UpdateEvent{ObjectOld: before.cached, ObjectNew: after.cached}, q)
	}
}

// modelQueue is the work queue of a kind.
type modelQueue struct {
	workqueue.TypedRateLimitingInterface[request] // methods that the model does not implement must not be called
	w                                             *world
	kind                                          string
}

func (q modelQueue) Add(r request) { q.enqueue(r.Name) }

func (q modelQueue) enqueue(name string) {
	r := ref{q.kind, name}
	d := q.w.queue[r]
	d.queued = true
	q.w.queue[r] = d
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// stateKey identifies states. Of resourceVersions only the order within one object counts: nothing
// compares those of two objects.
func (w *world) stateKey() [32]byte {
	ranks := w.versionRanks()
	rank := func(r ref, version string) string {
		if version == "" {
			return ""
		}
		i, _ := slices.BinarySearch(ranks[r], parseResourceVersion(version))
		return strconv.Itoa(i)
	}
	var b strings.Builder
	line := func(parts ...any) { fmt.Fprintln(&b, parts...) }
	state := func(v *objectVersion) {
		i, _ := slices.BinarySearch(ranks[v.ref], v.resourceVersion)
		line(v.ref, i, v.digest, v.deleted)
	}
	for _, v := range w.server.sorted() {
		state(v)
	}
	for _, k := range modelKinds {
		f := w.caches[k.name]
		line(k.name)
		if w.budget.crashes > 0 { // otherwise nothing reads it again
			for _, name := range sortedKeys(f.oldList) {
				state(f.oldList[name])
			}
			line(f.position)
		}
		for _, name := range sortedKeys(f.objects) {
			state(f.objects[name])
		}
		for _, n := range f.undelivered {
			line(n.before != nil, n.after != nil)
			if n.before != nil {
				state(n.before)
			}
			if n.after != nil {
				state(n.after)
			}
		}
		for i, v := range f.recent {
			if i >= f.position || w.budget.crashes > 0 {
				state(v)
			}
		}
	}
	line(reconcilerStateText(w, w.serviceReconciler, rank))
	line(reconcilerStateText(w, w.stackReconciler, rank))
	line(fmt.Sprint(w.queue), fmt.Sprint(w.pods), w.editsDone, w.budget, w.text())
	return sha256.Sum256([]byte(b.String()))
}

func parseResourceVersion(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// versionRanks are the known resourceVersions of every object, in order.
func (w *world) versionRanks() map[ref][]int64 {
	ranks := map[ref][]int64{}
	add := func(r ref, n int64) { ranks[r] = append(ranks[r], n) }
	for _, v := range w.server.objects {
		add(v.ref, v.resourceVersion)
	}
	for _, f := range w.caches {
		for _, v := range f.objects {
			add(v.ref, v.resourceVersion)
		}
		for _, v := range f.recent[f.position:] {
			add(v.ref, v.resourceVersion)
		}
		for _, n := range f.undelivered {
			for _, v := range []*objectVersion{n.before, n.after} {
				if v != nil {
					add(v.ref, v.resourceVersion)
				}
			}
		}
		if w.budget.crashes == 0 {
			continue
		}
		for _, v := range f.oldList {
			add(v.ref, v.resourceVersion)
		}
		for _, v := range f.recent[:f.position] {
			add(v.ref, v.resourceVersion)
		}
	}
	known := func(r ref, version string) {
		if version != "" {
			add(r, parseResourceVersion(version))
		}
	}
	visitReconcilerVersions(w.serviceReconciler, known)
	visitReconcilerVersions(w.stackReconciler, known)
	for r, all := range ranks {
		slices.Sort(all)
		ranks[r] = slices.Compact(all)
	}
	return ranks
}
