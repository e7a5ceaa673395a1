package execute

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewOwnWrites returns an empty OwnWrites.
func NewOwnWrites() *OwnWrites {
	return &OwnWrites{objects: map[types.UID]Application{}, uidByName: map[types.NamespacedName]types.UID{}, verified: map[types.UID]bool{}}
}

// OwnWrites keeps the responses to our writes of applications until the cache shows these writes: a
// reconcile before that must not repeat a write.
type OwnWrites struct {
	mu        sync.Mutex
	objects   map[types.UID]Application
	uidByName map[types.NamespacedName]types.UID
	// verified are the applications that were compared with the API server. A cache may start with
	// an outdated list; after that it only moves forward.
	verified map[types.UID]bool
}

// LastWrite returns our last write of an application that the cache does not show yet, or nil. Call
// LastWrite before reading the cache: OwnWrites drops a write when the cache shows the write, so a
// later call could return nil although the object that was read from the cache is older.
func (w *OwnWrites) LastWrite(name types.NamespacedName) Application {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[w.uidByName[name]]
}

// Newest returns the later of the cached application and our last write, and the UID of an earlier
// application with the same name, if one existed. The result must not be changed.
func (w *OwnWrites) Newest(cached, last Application) (newest Application, replaced types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := client.ObjectKeyFromObject(cached)
	if uid := w.uidByName[name]; uid != cached.GetUID() {
		replaced = uid
		delete(w.objects, uid)
		delete(w.verified, uid)
		w.uidByName[name] = cached.GetUID()
	}
	if last == nil || last.GetUID() != cached.GetUID() {
		return cached, replaced
	}
	c, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.GetResourceVersion())
	if err == nil && c < 0 {
		return last, replaced
	}
	delete(w.objects, cached.GetUID())
	return cached, replaced
}

// IsOwnWrite reports whether an update in the cache contains only our last write, and no other
// change, such as a change of the spec.
func (w *OwnWrites) IsOwnWrite(before, now client.Object) bool {
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

// Record stores the response to our write of an application.
func (w *OwnWrites) Record(app Application) {
	app.SetManagedFields(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[app.GetUID()] = app
	w.verified[app.GetUID()] = true
}

// isVerified reports whether an application was compared with the API server since our start.
func (w *OwnWrites) isVerified(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verified[uid]
}

func (w *OwnWrites) markVerified(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verified[uid] = true
}

// Forget drops a deleted application and returns its UID.
func (w *OwnWrites) Forget(name types.NamespacedName) types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := w.uidByName[name]
	delete(w.uidByName, name)
	delete(w.objects, uid)
	delete(w.verified, uid)
	return uid
}
