package engine

import (
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// unreachableRetryInterval is how often an API server that is away is tried again.
	unreachableRetryInterval = time.Second
	// missingKindRetryInterval is how often a kind that the API server does not know is asked for
	// again. It may never come: not everybody installs every kind.
	missingKindRetryInterval = 5 * time.Second
)

// RetryInformers returns a configuration whose lists and watches wait for an API server that
// cannot be reached, and for a kind that it does not know, and try every few seconds.
// Without it informers wait ever longer between two tries, up to a minute, and an outage
// lasts that much longer for those who only watch. All other requests fail at once: those
// who write decide themselves what to do. Events wait for one another.
func RetryInformers(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	slots := make(chan struct{}, maxConcurrentEventWrites)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return informerRetry{next: eventLimiter{next: next, slots: slots}, unreachableInterval: unreachableRetryInterval, missingKindInterval: missingKindRetryInterval}
	})
	return cfg
}

type informerRetry struct {
	next                                     http.RoundTripper
	unreachableInterval, missingKindInterval time.Duration
}

// RoundTrip sends a request, and again while nobody answers or nobody knows the kind.
func (p informerRetry) RoundTrip(req *http.Request) (*http.Response, error) {
	for tries := 0; ; tries++ {
		response, err := p.next.RoundTrip(req)
		pause := p.unreachableInterval
		switch {
		case !isInformerRequest(req):
			return response, err
		case err == nil && response.StatusCode == http.StatusNotFound:
			pause, err = p.missingKindInterval, errKindNotServed
			_ = response.Body.Close() // only says so in words
			if tries == 0 {
				klog.FromContext(req.Context()).Info("Found no such kind, waiting for its definition", "path", req.URL.Path)
			}
		case err == nil, !isUnreachable(err):
			return response, err
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// errKindNotServed is what those hear who were stopped while they waited for a kind.
var errKindNotServed = errors.New("the API server does not know this kind")

// isInformerRequest tells a list or watch from a read of one object.
func isInformerRequest(req *http.Request) bool {
	q := req.URL.Query()
	return req.Method == http.MethodGet && (q.Has("watch") || q.Has("limit"))
}

// isUnreachable says whether no connection could be made, so that nothing was sent.
func isUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
