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

// past is what the operator is shown instead of the present: lists are answered with the
// state at one resourceVersion, which etcd still has, and watches tell nothing new. Reads
// of one object, and writes, meet the truth: nobody can be made to believe that the past
// is writable.
type past struct {
	mu    sync.Mutex
	at    uint64 // 0 is the present
	which Which
	over  chan struct{} // closed when the present returns
}

// Freeze shows the state at a resourceVersion from now on: open watches end, and what is
// listed anew is old.
func (p *Proxy) Freeze(resourceVersion uint64, which Which) {
	p.past.mu.Lock()
	p.past.at, p.past.which, p.past.over = resourceVersion, which, make(chan struct{})
	p.past.mu.Unlock()
	p.Cut(which)
}

// Thaw lets the present in: watches replay what has happened since.
func (p *Proxy) Thaw() {
	p.past.mu.Lock()
	defer p.past.mu.Unlock()
	if p.past.at != 0 {
		p.past.at = 0
		close(p.past.over)
	}
}

// of is the moment that is shown of a resource.
func (p *past) of(resource string) (at uint64, over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == 0 || !p.which.has(resource) {
		return 0, nil
	}
	return p.at, p.over
}

// watch answers a watch of the past, if that is what is shown.
func (p *past) watch(ctx context.Context, w http.ResponseWriter, r *http.Request, resource string) bool {
	at, over := p.of(resource)
	if at == 0 {
		return false
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		// Makes the client list instead, and lists can be rewritten.
		answer(w, http.StatusUnprocessableEntity, &request.RequestInfo{Resource: resource})
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.Header.Get("Accept"), "protobuf") {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // a client that is gone waits for nothing
	select {
	case <-over:
	case <-ctx.Done():
	}
	return true
}

// list answers a list from the moment that is shown.
func (p *Proxy) list(w http.ResponseWriter, r *http.Request, resource string) {
	if at, _ := p.past.of(resource); at != 0 {
		q := r.URL.Query()
		q.Set("resourceVersion", strconv.FormatUint(at, 10))
		q.Set("resourceVersionMatch", "Exact")
		r.URL.RawQuery = withoutContinue(q)
	}
	p.pass(w, r)
}

// withoutContinue drops what contradicts an exact version.
func withoutContinue(q url.Values) string {
	q.Del("continue")
	q.Del("limit")
	return q.Encode()
}
