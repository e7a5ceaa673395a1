package engine

import (
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// retryUnreachable is how often an API server that is away is tried again.
const retryUnreachable = time.Second

// Patient returns a configuration whose lists and watches wait for an API server that
// cannot be reached, and try every second. Without it informers wait ever longer between
// two tries, up to a minute, and an outage lasts that much longer for those who only
// watch. All other requests fail at once: those who write decide themselves what to do.
func Patient(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return patient{next: next, pause: retryUnreachable}
	})
	return cfg
}

type patient struct {
	next  http.RoundTripper
	pause time.Duration
}

// RoundTrip sends a request, and again while nobody answers.
func (p patient) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		response, err := p.next.RoundTrip(req)
		if err == nil || !unreachable(err) || !fromInformer(req) {
			return response, err
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(p.pause):
		}
	}
}

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
