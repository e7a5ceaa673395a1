package watcher

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// watchErrors remembers which resources could not be asked for last time, and why. A test
// that waits in vain should not have to guess that nobody was looking.
type watchErrors struct {
	mu   sync.Mutex
	last map[string]error
}

// record takes the outcome of a request and hands the error back.
func (t *watchErrors) record(resource schema.GroupVersionResource, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := resource.GroupResource().String()
	if err == nil {
		delete(t.last, name)
		return nil
	}
	if t.last == nil {
		t.last = map[string]error{}
	}
	t.last[name] = err
	return err
}

// String continues an error message; it is empty when all is well.
func (t *watchErrors) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text string
	for _, name := range slices.Sorted(maps.Keys(t.last)) {
		text += "; not watching " + name + ": " + t.last[name].Error()
	}
	return text
}
