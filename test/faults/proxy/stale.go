package proxy

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// staleView serves stale state: lists return the state at an earlier resourceVersion that etcd still has, and watches
// deliver no events. Reads of single objects and writes are not affected.
type staleView struct {
	mu              sync.Mutex
	resourceVersion uint64 // 0 means current
	filter          ResourceFilter
	ended           chan struct{} // closed when current state is served again
}

// ServeStale serves the state at a resourceVersion from now on: open watches end, and new lists are stale.
func (p *Proxy) ServeStale(resourceVersion uint64, filter ResourceFilter) {
	p.stale.mu.Lock()
	p.stale.resourceVersion, p.stale.filter, p.stale.ended = resourceVersion, filter, make(chan struct{})
	p.stale.mu.Unlock()
	p.CloseWatches(filter)
}

// ServeLive serves current state again: watches replay missed events.
func (p *Proxy) ServeLive() {
	p.stale.mu.Lock()
	defer p.stale.mu.Unlock()
	if p.stale.resourceVersion != 0 {
		p.stale.resourceVersion = 0
		close(p.stale.ended)
	}
}

// versionFor returns the resourceVersion that is served for a resource.
func (p *staleView) versionFor(resource string) (resourceVersion uint64, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resourceVersion == 0 || !p.filter.matches(resource) {
		return 0, nil
	}
	return p.resourceVersion, p.ended
}

// serveWatch handles a watch if stale state is served.
func (p *staleView) serveWatch(ctx context.Context, w http.ResponseWriter, r *http.Request, resource string) bool {
	resourceVersion, ended := p.versionFor(resource)
	if resourceVersion == 0 {
		return false
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		// This error makes the client fall back to a list, which can be rewritten.
		writeError(w, http.StatusUnprocessableEntity, &request.RequestInfo{Resource: resource})
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.Header.Get("Accept"), "protobuf") {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the client may have disconnected
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return true
}

// serveList answers a list from the served resourceVersion.
func (p *Proxy) serveList(w http.ResponseWriter, r *http.Request, resource string) {
	if resourceVersion, _ := p.stale.versionFor(resource); resourceVersion != 0 {
		q := r.URL.Query()
		q.Set("resourceVersion", strconv.FormatUint(resourceVersion, 10))
		q.Set("resourceVersionMatch", "Exact")
		r.URL.RawQuery = encodeWithoutPaging(q)
	}
	p.passThrough(w, r)
}

// encodeWithoutPaging drops parameters that are not allowed with an exact resourceVersion.
func encodeWithoutPaging(q url.Values) string {
	q.Del("continue")
	q.Del("limit")
	return q.Encode()
}
