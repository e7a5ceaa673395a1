package engine

import (
	"net/http"
	"strings"
)

// eventsAtOnce is how many events are written at the same time.
const eventsAtOnce = 4

// fewEvents writes a few events at a time. The recorder sends each as soon as it is told,
// thousands at the same time when thousands of applications come up; then people who wait for
// an application wait for what is said about others. Nobody waits for an event.
type fewEvents struct {
	next http.RoundTripper
	turn chan struct{}
}

// RoundTrip sends a request, and an event when it is its turn.
func (f fewEvents) RoundTrip(req *http.Request) (*http.Response, error) {
	if !writesEvent(req) {
		return f.next.RoundTrip(req)
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
		return f.next.RoundTrip(req)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

func writesEvent(req *http.Request) bool {
	return req.Method != http.MethodGet && strings.HasPrefix(req.URL.Path, "/apis/events.k8s.io/")
}
