package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// written keeps the objects as our own status writes left them until the cache has them
// too: a child that wakes us in between must not make us write the same again.
type written[T Object] struct {
	mu      sync.Mutex
	objects map[types.UID]T
	names   map[types.NamespacedName]types.UID
}

// newest returns the later of the cached object and our last write, which may be changed
// only as a copy, and the UID of an earlier object of the same name, if there was one.
func (w *written[T]) newest(cached T) (newest T, replaced types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := client.ObjectKeyFromObject(cached)
	if uid := w.names[name]; uid != cached.GetUID() {
		replaced = uid
		delete(w.objects, uid)
		w.names[name] = cached.GetUID()
	}
	last, ok := w.objects[cached.GetUID()]
	if !ok {
		return cached, replaced
	}
	c, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.GetResourceVersion())
	if err == nil && c < 0 {
		return last, replaced
	}
	delete(w.objects, cached.GetUID())
	return cached, replaced
}

func (w *written[T]) remember(obj T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[obj.GetUID()] = obj
}

// forget drops an object that is gone.
func (w *written[T]) forget(name types.NamespacedName) types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := w.names[name]
	delete(w.names, name)
	delete(w.objects, uid)
	return uid
}
