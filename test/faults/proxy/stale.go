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

// staleView is what the operator is shown instead of the present: lists are answered with the
// state at one resourceVersion, which etcd still has, and watches tell nothing new. Reads
// of one object, and writes, meet the truth: nobody can be made to believe that the past
// is writable.
type staleView struct {
	mu              sync.Mutex
	resourceVersion uint64 // 0 is the present
	filter          ResourceFilter
	ended           chan struct{} // closed when the present returns
}

// ServeStale shows the state at a resourceVersion from now on: open watches end, and what is
// listed anew is old.
func (p *Proxy) ServeStale(resourceVersion uint64, filter ResourceFilter) {
	p.stale.mu.Lock()
	p.stale.resourceVersion, p.stale.filter, p.stale.ended = resourceVersion, filter, make(chan struct{})
	p.stale.mu.Unlock()
	p.CloseWatches(filter)
}

// ServeLive lets the present in: watches replay what has happened since.
func (p *Proxy) ServeLive() {
	p.stale.mu.Lock()
	defer p.stale.mu.Unlock()
	if p.stale.resourceVersion != 0 {
		p.stale.resourceVersion = 0
		close(p.stale.ended)
	}
}

// versionFor is the moment that is shown of a resource.
func (p *staleView) versionFor(resource string) (resourceVersion uint64, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resourceVersion == 0 || !p.filter.matches(resource) {
		return 0, nil
	}
	return p.resourceVersion, p.ended
}

// serveWatch answers a watch of the past, if that is what is shown.
func (p *staleView) serveWatch(ctx context.Context, w http.ResponseWriter, r *http.Request, resource string) bool {
	resourceVersion, ended := p.versionFor(resource)
	if resourceVersion == 0 {
		return false
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		// Makes the client list instead, and lists can be rewritten.
		writeError(w, http.StatusUnprocessableEntity, &request.RequestInfo{Resource: resource})
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.Header.Get("Accept"), "protobuf") {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // a client that is gone waits for nothing
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return true
}

// serveList answers a list from the moment that is shown.
func (p *Proxy) serveList(w http.ResponseWriter, r *http.Request, resource string) {
	if resourceVersion, _ := p.stale.versionFor(resource); resourceVersion != 0 {
		q := r.URL.Query()
		q.Set("resourceVersion", strconv.FormatUint(resourceVersion, 10))
		q.Set("resourceVersionMatch", "Exact")
		r.URL.RawQuery = encodeWithoutPaging(q)
	}
	p.passThrough(w, r)
}

// encodeWithoutPaging drops what contradicts an exact version.
func encodeWithoutPaging(q url.Values) string {
	q.Del("continue")
	q.Del("limit")
	return q.Encode()
}
