package engine

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

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// maxCacheLag is by how many events of a kind a cache may be behind.
	maxCacheLag = 3
	// maxUndelivered is by how many events those who are woken may be behind the cache.
	maxUndelivered = 2
)

// kindCache is the cache of one kind, and what it has not seen yet.
//
//	before ── recent[:seen] ──► shown ── recent[seen:] ──► the truth
type kindCache struct {
	oldList  map[string]*objectVersion // as it was, for those who start anew from an old list
	recent   []*objectVersion
	position int
	objects  map[string]*objectVersion
	// undelivered are the changes of the cache that nobody was told about yet.
	undelivered []cacheEvent
}

// cacheEvent is a change of a cache: nil before is a beginning, nil after an end.
type cacheEvent struct{ before, after *objectVersion }

func (f *kindCache) clone() *kindCache {
	return &kindCache{maps.Clone(f.oldList), slices.Clone(f.recent), f.position, maps.Clone(f.objects), slices.Clone(f.undelivered)}
}

// isSelected says whether a cache selects an object.
func (v *objectVersion) isSelected() bool {
	return v.kind == "AppService" || v.kind == "AppStack" || v.object.GetLabels()[appsapi.LabelManagedBy] == appsapi.ManagedBy
}

// applyToCache changes a cache by one event.
func applyToCache(cache map[string]*objectVersion, v *objectVersion) {
	if v.deleted || !v.isSelected() {
		delete(cache, v.name)
		return
	}
	cache[v.name] = v
}

// queueEntry is when an object is looked at.
type queueEntry struct {
	queued bool
	// timer is after how long it is looked at if nothing happens; 0 means never.
	timer time.Duration
}

// podState are those of a workload, as the played controllers have them.
type podState struct {
	template string
	image    string
	ready    bool
}

// world is one state of everything.
type world struct {
	server   *server
	scenario *scenario
	bug      injectedBug
	digests  *sync.Map // what was answered, by resourceVersion

	caches            map[string]*kindCache
	serviceReconciler *reconciler[*appsapi.AppService]
	stackReconciler   *reconciler[*appsapi.AppStack]
	queue             map[ref]queueEntry
	pods              map[types.UID]podState
	now               time.Time
	editsDone         int // of the user, that are done
	budget            budget

	ruleState
	reconciling ref    // whose reconcile is running
	violation   string // the first rule that was broken
	lastErr     error  // what the last reconcile returned
	liveReads   atomic.Int64
}

// budget is how much trouble there may still be.
type budget struct{ crashes, lostResponses, ticks, resyncs int }

var serviceKind = Kind[*appsapi.AppService]{
	New: func() *appsapi.AppService { return &appsapi.AppService{} },
	Components: func(app *appsapi.AppService) []Component {
		return []Component{{Name: app.Name, ResourceName: app.Name, Suspend: app.Spec.Suspend, Service: &app.Spec.ServiceComponent}}
	},
	UpdateStatus: func(app *appsapi.AppService, components []ComponentStatus) {
		app.Status.Replicas = components[0].Replicas
	},
}

var stackKind = Kind[*appsapi.AppStack]{
	New:        func() *appsapi.AppStack { return &appsapi.AppStack{} },
	Components: func(stack *appsapi.AppStack) []Component { return stack.Spec.Components },
	History: func(stack *appsapi.AppStack) (any, int32) {
		return appsapi.AppStackSpec{Components: stack.Spec.Components}, 0
	},
}

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

// Now and Since are the clock of the reconcilers.
func (w *world) Now() time.Time { return w.now }

// Since is how much time has passed.
func (w *world) Since(t time.Time) time.Duration { return w.now.Sub(t) }

// publish gives what was written to the caches, which see it later. In which order two
// objects of a kind were written within one reconcile is chance, and nothing depends on it.
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
				w.updateCache(k.name) // as far behind as it may be
			}
			applyToCache(f.oldList, f.recent[0])
			f.recent, f.position = f.recent[1:], f.position-1
		}
	}
}

// updateCache lets the cache of a kind catch up by one event.
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
		before = now // how it looked last
	}
	f.undelivered = append(f.undelivered, cacheEvent{before, after})
	if len(f.undelivered) > maxUndelivered {
		w.deliverEvent(kind)
	}
}

// deliverEvent wakes those whom a change of the cache is for, with the engine's own handlers.
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

func dispatch[T Object](w *world, r *reconciler[T], v, before, after *objectVersion) {
	q := modelQueue{w: w, kind: r.gvk.Kind}
	if v.kind == r.gvk.Kind {
		if before == nil || after == nil || !r.ownWrites.isOwnWrite(before.cached, after.cached) {
			q.enqueue(v.name)
		}
		return
	}
	group := newEmpty(v.kind).GetObjectKind().GroupVersionKind()
	if group.Group == appsapi.GroupVersion.Group {
		return
	}
	h := childHandler{owner: schema.GroupKind{Group: appsapi.GroupVersion.Group, Kind: r.gvk.Kind}, gvk: group, applier: r.applier}.eventHandler()
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
	workqueue.TypedRateLimitingInterface[request] // what is not played must not be called
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

// stateKey tells states apart. Of resourceVersions only the order counts, and that of each
// object for itself: nothing compares those of two.
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
		if w.budget.crashes > 0 { // else nobody comes back to it
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

// versionRanks are the resourceVersions of every object that anybody knows, in order.
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
