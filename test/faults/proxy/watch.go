package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Which chooses watches and lists by their resource, "deployments.apps"; nil means all.
type Which func(resource string) bool

// Only chooses some resources.
func Only(resources ...string) Which {
	return func(resource string) bool {
		for _, r := range resources {
			if r == resource {
				return true
			}
		}
		return false
	}
}

func (w Which) has(resource string) bool { return w == nil || w(resource) }

// watches are the open watches of the operator and what is to happen to them.
type watches struct {
	mu      sync.Mutex
	open    map[*stream]bool
	held    Which // only looked at while holds is set
	holds   bool
	delay   time.Duration
	expired map[string]bool // the next watch of these is answered 410
	changed chan struct{}   // closed when held or holds change
}

type stream struct {
	resource string
	end      context.CancelFunc
}

// Hold keeps the events of some watches back until Release.
func (p *Proxy) Hold(which Which) { p.watches.set(func(w *watches) { w.holds, w.held = true, which }) }

// Release delivers what was held back.
func (p *Proxy) Release() { p.watches.set(func(w *watches) { w.holds = false }) }

// Delay delivers every event this much later.
func (p *Proxy) Delay(d time.Duration) { p.watches.set(func(w *watches) { w.delay = d }) }

// Cut ends watches; the operator goes on from the last event that it was sent.
func (p *Proxy) Cut(which Which) int {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	n := 0
	for s := range p.watches.open {
		if which.has(s.resource) {
			s.end()
			delete(p.watches.open, s) // at once: it is over for everybody who counts
			n++
		}
	}
	return n
}

// Expire ends watches and answers 410 to the next try: the operator has to list anew, and
// never learns what happened in between.
func (p *Proxy) Expire(which Which) int {
	p.watches.set(func(w *watches) {
		for s := range w.open {
			if which.has(s.resource) {
				w.expired[s.resource] = true
			}
		}
	})
	return p.Cut(which)
}

// Watches counts those that are open.
func (p *Proxy) Watches(which Which) int {
	p.watches.mu.Lock()
	defer p.watches.mu.Unlock()
	n := 0
	for s := range p.watches.open {
		if which.has(s.resource) {
			n++
		}
	}
	return n
}

func (w *watches) set(change func(*watches)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.init()
	change(w)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watches) init() {
	if w.open == nil {
		w.open, w.expired, w.changed = map[*stream]bool{}, map[string]bool{}, make(chan struct{})
	}
}

// begin notes a watch, or says that it has expired.
func (w *watches) begin(s *stream) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.init()
	if w.expired[s.resource] {
		delete(w.expired, s.resource)
		return false
	}
	w.open[s] = true
	return true
}

func (w *watches) end(s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, s)
}

// await returns when a piece that came at a time may be delivered.
func (w *watches) await(ctx context.Context, resource string, came time.Time) error {
	for {
		w.mu.Lock()
		held, delay, changed := w.holds && w.held.has(resource), w.delay, w.changed
		w.mu.Unlock()
		// After the look at what is held: cut and then released, it would be delivered
		// between the two.
		if ctx.Err() != nil {
			return ctx.Err() // cut: what was held back is never seen
		}
		wait := time.Until(came.Add(delay))
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

func (p *Proxy) watch(w http.ResponseWriter, r *http.Request, resource string) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	s := &stream{resource: resource, end: end}
	if !p.watches.begin(s) {
		answer(w, http.StatusGone, &request.RequestInfo{Resource: resource})
		return
	}
	defer p.watches.end(s)
	if p.past.watch(ctx, w, r, resource) {
		return
	}
	response, err := p.forward(r.WithContext(ctx))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	copyHeader(w, response)
	p.stream(ctx, w, response, resource)
}

type piece struct {
	content []byte
	came    time.Time
}

// stream copies a watch piece by piece. Reading never waits for what is held back, so that
// the API server does not take the operator for a slow client.
func (p *Proxy) stream(ctx context.Context, w http.ResponseWriter, response *http.Response, resource string) {
	out := http.NewResponseController(w)
	_ = out.Flush()
	pieces := make(chan piece, 1<<14)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 32<<10)
			n, err := response.Body.Read(buffer)
			if n > 0 {
				select {
				case pieces <- piece{buffer[:n], time.Now()}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for part := range pieces {
		if p.watches.await(ctx, resource, part.came) != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(part.content); err != nil {
			return
		}
		_ = out.Flush()
	}
	if ctx.Err() != nil {
		panic(http.ErrAbortHandler) // cut, not ended
	}
}
