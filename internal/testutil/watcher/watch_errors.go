package watcher

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// watchErrors records which resources could not be listed or watched, and why, so that a timeout shows that the watch
// was broken.
type watchErrors struct {
	mu   sync.Mutex
	last map[string]error
}

// record records the result of a request and returns the error.
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

// String is appended to an error message; it is empty without errors.
func (t *watchErrors) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text string
	for _, name := range slices.Sorted(maps.Keys(t.last)) {
		text += "; not watching " + name + ": " + t.last[name].Error()
	}
	return text
}
