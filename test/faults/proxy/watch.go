package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// ResourceFilter selects watches and lists by resource, for example "deployments.apps"; nil selects all.
type ResourceFilter func(resource string) bool

// Only selects the given resources.
func Only(resources ...string) ResourceFilter {
	return func(resource string) bool {
		for _, r := range resources {
			if r == resource {
				return true
			}
		}
		return false
	}
}

func (w ResourceFilter) matches(resource string) bool { return w == nil || w(resource) }

// watchControl contains the open watches of the operator and the active faults.
type watchControl struct {
	mu            sync.Mutex
	open          map[*openWatch]bool
	heldResources ResourceFilter // only used while holding is set
	holding       bool
	delay         time.Duration
	expired       map[string]bool // the next watch of these resources gets 410
	changed       chan struct{}   // closed when heldResources or holding changes
}

type openWatch struct {
	resource string
	cancel   context.CancelFunc
}

// HoldEvents holds back the events of some watches until ReleaseEvents.
func (p *Proxy) HoldEvents(filter ResourceFilter) {
	p.watches.update(func(w *watchControl) { w.holding, w.heldResources = true, filter })
}

// ReleaseEvents delivers the events that were held back.
func (p *Proxy) ReleaseEvents() { p.watches.update(func(w *watchControl) { w.holding = false }) }

// DelayEvents delays every event.
func (p *Proxy) DelayEvents(d time.Duration) { p.watches.update(func(w *watchControl) { w.delay = d }) }

// CloseWatches closes watches; the operator continues from the last event it received.
func (p *Proxy) CloseWatches(filter ResourceFilter) int {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	n := 0
	for s := range p.watches.open {
		if filter.matches(s.resource) {
			s.cancel()
			delete(p.watches.open, s) // at once, so that OpenWatches does not count it
			n++
		}
	}
	return n
}

// ExpireWatches closes watches and answers the next attempt with 410: the operator must list again and misses the events
// in between.
func (p *Proxy) ExpireWatches(filter ResourceFilter) int {
	p.watches.update(func(w *watchControl) {
		for s := range w.open {
			if filter.matches(s.resource) {
				w.expired[s.resource] = true
			}
		}
	})
	return p.CloseWatches(filter)
}

// OpenWatches counts open watches.
func (p *Proxy) OpenWatches(filter ResourceFilter) int {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	n := 0
	for s := range p.watches.open {
		if filter.matches(s.resource) {
			n++
		}
	}
	return n
}

func (w *watchControl) update(change func(*watchControl)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ensureInitialized()
	change(w)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watchControl) ensureInitialized() {
	if w.open == nil {
		w.open, w.expired, w.changed = map[*openWatch]bool{}, map[string]bool{}, make(chan struct{})
	}
}

// register adds a watch, or returns false if it has expired.
func (w *watchControl) register(s *openWatch) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ensureInitialized()
	if w.expired[s.resource] {
		delete(w.expired, s.resource)
		return false
	}
	w.open[s] = true
	return true
}

func (w *watchControl) unregister(s *openWatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, s)
}

// waitUntilDeliverable waits until data received at a time can be delivered.
func (w *watchControl) waitUntilDeliverable(ctx context.Context, resource string, receivedAt time.Time) error {
	for {
		w.mu.Lock()
		held, delay, changed := w.holding && w.heldResources.matches(resource), w.delay, w.changed
		w.mu.Unlock()
		// Check after the hold: a watch that is closed and then released must not deliver.
		if ctx.Err() != nil {
			return ctx.Err() // closed: held events are lost
		}
		wait := time.Until(receivedAt.Add(delay))
		if !held && wait <= 0 {
			return nil
		}
		var due <-chan time.Time
		if !held {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-due:
		}
	}
}

func (p *Proxy) serveWatch(w http.ResponseWriter, r *http.Request, resource string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &openWatch{resource: resource, cancel: cancel}
	if !p.watches.register(s) {
		writeError(w, http.StatusGone, &request.RequestInfo{Resource: resource})
		return
	}
	defer p.watches.unregister(s)
	if p.stale.serveWatch(ctx, w, r, resource) {
		return
	}
	response, err := p.forward(r.WithContext(ctx))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	copyHeader(w, response)
	p.copyEvents(ctx, w, response, resource)
}

type chunk struct {
	content    []byte
	receivedAt time.Time
}

// copyEvents copies a watch. It reads without waiting for held events, so that the API server does not close the watch
// of a slow client.
func (p *Proxy) copyEvents(ctx context.Context, w http.ResponseWriter, response *http.Response, resource string) {
	out := http.NewResponseController(w)
	_ = out.Flush()
	chunks := make(chan chunk, 1<<14)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 32<<10)
			n, err := response.Body.Read(buffer)
			if n > 0 {
				select {
				case chunks <- chunk{buffer[:n], time.Now()}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range chunks {
		if p.watches.waitUntilDeliverable(ctx, resource, next.receivedAt) != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(next.content); err != nil {
			return
		}
		_ = out.Flush()
	}
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // closed, not completed
	}
}
