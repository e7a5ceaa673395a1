package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newOwnWrites[T Object]() ownWrites[T] {
	return ownWrites[T]{objects: map[types.UID]T{}, uidByName: map[types.NamespacedName]types.UID{}, verified: map[types.UID]bool{}}
}

// ownWrites keeps the objects as our own status writes left them until the cache has them
// too: a child that wakes us in between must not make us write the same again.
type ownWrites[T Object] struct {
	mu        sync.Mutex
	objects   map[types.UID]T
	uidByName map[types.NamespacedName]types.UID
	// verified are the objects that the API server has told us about. A cache may begin with
	// a list of the past; from here on it only goes forward.
	verified map[types.UID]bool
}

// lastWrite returns our last write of an object, if the cache has not shown it yet. It has to be
// asked for before the cache is: what the cache shows in between is forgotten here.
func (w *ownWrites[T]) lastWrite(name types.NamespacedName) (lastWrite T, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lastWrite, ok = w.objects[w.uidByName[name]]
	return lastWrite, ok
}

// newest returns the later of the cached object and our last write, which may be changed
// only as a copy, and the UID of an earlier object of the same name, if there was one.
func (w *ownWrites[T]) newest(cached, last T, ok bool) (newest T, replaced types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := client.ObjectKeyFromObject(cached)
	if uid := w.uidByName[name]; uid != cached.GetUID() {
		replaced = uid
		delete(w.objects, uid)
		delete(w.verified, uid)
		w.uidByName[name] = cached.GetUID()
	}
	if !ok || last.GetUID() != cached.GetUID() {
		return cached, replaced
	}
	c, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.GetResourceVersion())
	if err == nil && c < 0 {
		return last, replaced
	}
	delete(w.objects, cached.GetUID())
	return cached, replaced
}

// isOwnWrite says whether an update that the cache saw is our own last write and nothing else.
// A change of the spec that the cache has not shown yet is something else.
func (w *ownWrites[T]) isOwnWrite(before, now client.Object) bool {
	if before.GetGeneration() != now.GetGeneration() || !before.GetDeletionTimestamp().Equal(now.GetDeletionTimestamp()) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.objects[now.GetUID()]
	if !ok || last.GetResourceVersion() != now.GetResourceVersion() {
		return false
	}
	delete(w.objects, now.GetUID())
	return true
}

func (w *ownWrites[T]) record(obj T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[obj.GetUID()] = obj
	w.verified[obj.GetUID()] = true
}

// isVerified says whether what we know of an object is not older than our own start.
func (w *ownWrites[T]) isVerified(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verified[uid]
}

func (w *ownWrites[T]) markVerified(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verified[uid] = true
}

// forget drops an object that is gone.
func (w *ownWrites[T]) forget(name types.NamespacedName) types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := w.uidByName[name]
	delete(w.uidByName, name)
	delete(w.objects, uid)
	delete(w.verified, uid)
	return uid
}
