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
	// maxLag is by how many events of a kind a cache may be behind.
	maxLag = 3
	// maxUnheard is by how many events those who are woken may be behind the cache.
	maxUnheard = 2
)

// feed is the cache of one kind, and what it has not seen yet.
//
//	before ── recent[:seen] ──► shown ── recent[seen:] ──► the truth
type feed struct {
	before map[string]*version // as it was, for those who start anew from an old list
	recent []*version
	seen   int
	shown  map[string]*version
	// unheard are the changes of the cache that nobody was told about yet.
	unheard []notice
}

// notice is a change of a cache: nil before is a beginning, nil after an end.
type notice struct{ before, after *version }

func (f *feed) clone() *feed {
	return &feed{maps.Clone(f.before), slices.Clone(f.recent), f.seen, maps.Clone(f.shown), slices.Clone(f.unheard)}
}

// ours says whether a cache selects an object.
func (v *version) ours() bool {
	return v.kind == "AppService" || v.kind == "AppStack" || v.object.GetLabels()[appsapi.LabelManagedBy] == appsapi.ManagedBy
}

// note changes a cache by one event.
func note(cache map[string]*version, v *version) {
	if v.gone || !v.ours() {
		delete(cache, v.name)
		return
	}
	cache[v.name] = v
}

// due is when an object is looked at.
type due struct {
	queued bool
	// timer is after how long it is looked at if nothing happens; 0 means never.
	timer time.Duration
}

// pods are those of a workload, as the played controllers have them.
type pods struct {
	template string
	image    string
	ready    bool
}

// world is one state of everything.
type world struct {
	server  *server
	in      *input
	mistake mistake
	digests *sync.Map // what was answered, by resourceVersion

	feeds    map[string]*feed
	services *reconciler[*appsapi.AppService]
	stacks   *reconciler[*appsapi.AppStack]
	queue    map[ref]due
	pods     map[types.UID]pods
	now      time.Time
	edits    int // of the user, that are done
	budget   budget

	past
	acting   ref    // whose reconcile is running
	violated string // the first rule that was broken
	failed   error  // what the last reconcile returned
	reads    atomic.Int64
}

// budget is how much trouble there may still be.
type budget struct{ crashes, losses, ticks, resyncs int }

var serviceKind = Kind[*appsapi.AppService]{
	New: func() *appsapi.AppService { return &appsapi.AppService{} },
	Components: func(app *appsapi.AppService) []Component {
		return []Component{{Name: app.Name, ResourceName: app.Name, Suspend: app.Spec.Suspend, Service: &app.Spec.ServiceComponent}}
	},
	Report: func(app *appsapi.AppService, components []ComponentStatus) {
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

func newWorld(in *input, b budget, wrong mistake) *world {
	w := &world{server: newServer(), in: in, mistake: wrong, digests: &sync.Map{}, feeds: map[string]*feed{},
		queue: map[ref]due{}, pods: map[types.UID]pods{}, now: epoch, budget: b, past: newPast()}
	for _, k := range modelKinds {
		w.feeds[k.name] = &feed{before: map[string]*version{}, shown: map[string]*version{}}
	}
	w.services, w.stacks = newMind(w, serviceKind, "AppService"), newMind(w, stackKind, "AppStack")
	w.server.judge = w.judge
	return w
}

func (w *world) clone() *world {
	out := &world{server: w.server.clone(), in: w.in, mistake: w.mistake, digests: w.digests, feeds: map[string]*feed{},
		queue: maps.Clone(w.queue), pods: maps.Clone(w.pods), now: w.now, edits: w.edits, budget: w.budget, past: w.past.clone()}
	for k, f := range w.feeds {
		out.feeds[k] = f.clone()
	}
	out.services, out.stacks = cloneMind(w.services, out), cloneMind(w.stacks, out)
	out.server.judge = out.judge
	return out
}

// Now and Since are the clock of the reconcilers.
func (w *world) Now() time.Time { return w.now }

// Since is how much time has passed.
func (w *world) Since(t time.Time) time.Duration { return w.now.Sub(t) }

// publish gives what was written to the caches, which see it later. In which order two
// objects of a kind were written within one reconcile is chance, and nothing depends on it.
func (w *world) publish() {
	news := w.server.news
	w.server.news = nil
	slices.SortStableFunc(news, func(a, b *version) int { return compareRefs(a.ref, b.ref) })
	for _, v := range news {
		f := w.feeds[v.kind]
		f.recent = append(f.recent, v)
	}
	for _, k := range modelKinds {
		f := w.feeds[k.name]
		for len(f.recent) > maxLag {
			if f.seen == 0 {
				w.see(k.name) // as far behind as it may be
			}
			note(f.before, f.recent[0])
			f.recent, f.seen = f.recent[1:], f.seen-1
		}
	}
}

// see lets the cache of a kind catch up by one event.
func (w *world) see(kind string) {
	f := w.feeds[kind]
	now := f.recent[f.seen]
	before := f.shown[now.name]
	f.seen++
	note(f.shown, now)
	after := f.shown[now.name]
	switch {
	case before == nil && after == nil:
		return
	case after == nil && now.gone:
		before = now // how it looked last
	}
	f.unheard = append(f.unheard, notice{before, after})
	if len(f.unheard) > maxUnheard {
		w.hear(kind)
	}
}

// hear wakes those whom a change of the cache is for, with the engine's own handlers.
func (w *world) hear(kind string) {
	f := w.feeds[kind]
	n := f.unheard[0]
	f.unheard = f.unheard[1:]
	v := cmp.Or(n.after, n.before)
	if w.mistake.deaf == v.kind && n.before != nil && n.after != nil {
		return
	}
	handleFor(w, w.services, v, n.before, n.after)
	handleFor(w, w.stacks, v, n.before, n.after)
}

func handleFor[T Object](w *world, r *reconciler[T], v, before, after *version) {
	q := modelQueue{w: w, kind: r.gvk.Kind}
	if v.kind == r.gvk.Kind {
		if before == nil || after == nil || !r.written.echo(before.cached, after.cached) {
			q.wake(v.name)
		}
		return
	}
	group := emptyOf(v.kind).GetObjectKind().GroupVersionKind()
	if group.Group == appsapi.GroupVersion.Group {
		return
	}
	h := childHandler{owner: schema.GroupKind{Group: appsapi.GroupVersion.Group, Kind: r.gvk.Kind}, kind: group, applier: r.applier}.handler()
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

func (q modelQueue) Add(r request) { q.wake(r.Name) }

func (q modelQueue) wake(name string) {
	r := ref{q.kind, name}
	d := q.w.queue[r]
	d.queued = true
	q.w.queue[r] = d
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// key tells states apart. Of resourceVersions only the order counts, and that of each
// object for itself: nothing compares those of two.
func (w *world) key() [32]byte {
	ranks := w.ranks()
	number := func(r ref, version string) string {
		if version == "" {
			return ""
		}
		i, _ := slices.BinarySearch(ranks[r], parseNumber(version))
		return strconv.Itoa(i)
	}
	var b strings.Builder
	line := func(parts ...any) { fmt.Fprintln(&b, parts...) }
	state := func(v *version) {
		i, _ := slices.BinarySearch(ranks[v.ref], v.number)
		line(v.ref, i, v.digest, v.gone)
	}
	for _, v := range w.server.sorted() {
		state(v)
	}
	for _, k := range modelKinds {
		f := w.feeds[k.name]
		line(k.name)
		if w.budget.crashes > 0 { // else nobody comes back to it
			for _, name := range sortedKeys(f.before) {
				state(f.before[name])
			}
			line(f.seen)
		}
		for _, name := range sortedKeys(f.shown) {
			state(f.shown[name])
		}
		for _, n := range f.unheard {
			line(n.before != nil, n.after != nil)
			if n.before != nil {
				state(n.before)
			}
			if n.after != nil {
				state(n.after)
			}
		}
		for i, v := range f.recent {
			if i >= f.seen || w.budget.crashes > 0 {
				state(v)
			}
		}
	}
	line(mindText(w, w.services, number))
	line(mindText(w, w.stacks, number))
	line(fmt.Sprint(w.queue), fmt.Sprint(w.pods), w.edits, w.budget, w.text())
	return sha256.Sum256([]byte(b.String()))
}

func parseNumber(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// ranks are the resourceVersions of every object that anybody knows, in order.
func (w *world) ranks() map[ref][]int64 {
	ranks := map[ref][]int64{}
	add := func(r ref, n int64) { ranks[r] = append(ranks[r], n) }
	for _, v := range w.server.objects {
		add(v.ref, v.number)
	}
	for _, f := range w.feeds {
		for _, v := range f.shown {
			add(v.ref, v.number)
		}
		for _, v := range f.recent[f.seen:] {
			add(v.ref, v.number)
		}
		for _, n := range f.unheard {
			for _, v := range []*version{n.before, n.after} {
				if v != nil {
					add(v.ref, v.number)
				}
			}
		}
		if w.budget.crashes == 0 {
			continue
		}
		for _, v := range f.before {
			add(v.ref, v.number)
		}
		for _, v := range f.recent[:f.seen] {
			add(v.ref, v.number)
		}
	}
	known := func(r ref, version string) {
		if version != "" {
			add(r, parseNumber(version))
		}
	}
	numbersWritten(w.services, known)
	numbersWritten(w.stacks, known)
	for r, all := range ranks {
		slices.Sort(all)
		ranks[r] = slices.Compact(all)
	}
	return ranks
}
