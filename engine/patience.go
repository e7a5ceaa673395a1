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
	// retryUnreachable is how often an API server that is away is tried again.
	retryUnreachable = time.Second
	// retryMissing is how often a kind that the API server does not know is asked for
	// again. It may never come: not everybody installs every kind.
	retryMissing = 5 * time.Second
)

// Patient returns a configuration whose lists and watches wait for an API server that
// cannot be reached, and for a kind that it does not know, and try every few seconds.
// Without it informers wait ever longer between two tries, up to a minute, and an outage
// lasts that much longer for those who only watch. All other requests fail at once: those
// who write decide themselves what to do. Events wait for one another.
func Patient(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	turn := make(chan struct{}, eventsAtOnce)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return patient{next: fewEvents{next: next, turn: turn}, pause: retryUnreachable, missing: retryMissing}
	})
	return cfg
}

type patient struct {
	next           http.RoundTripper
	pause, missing time.Duration
}

// RoundTrip sends a request, and again while nobody answers or nobody knows the kind.
func (p patient) RoundTrip(req *http.Request) (*http.Response, error) {
	for tries := 0; ; tries++ {
		response, err := p.next.RoundTrip(req)
		pause := p.pause
		switch {
		case !fromInformer(req):
			return response, err
		case err == nil && response.StatusCode == http.StatusNotFound:
			pause, err = p.missing, errMissing
			_ = response.Body.Close() // only says so in words
			if tries == 0 {
				klog.FromContext(req.Context()).Info("Found no such kind, waiting for its definition", "path", req.URL.Path)
			}
		case err == nil, !unreachable(err):
			return response, err
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// errMissing is what those hear who were stopped while they waited for a kind.
var errMissing = errors.New("the API server does not know this kind")

// fromInformer tells a list or watch from a read of one object.
func fromInformer(req *http.Request) bool {
	q := req.URL.Query()
	return req.Method == http.MethodGet && (q.Has("watch") || q.Has("limit"))
}

// unreachable says whether no connection could be made, so that nothing was sent.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
