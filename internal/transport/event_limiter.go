package transport

import (
	"net/http"
	"strings"
)

// maxConcurrentEventWrites is how many events are written at the same time.
const maxConcurrentEventWrites = 4

// eventLimiter writes a few events at a time. The recorder sends each as soon as it is told,
// thousands at the same time when thousands of applications come up; then people who wait for
// an application wait for what is said about others. Nobody waits for an event.
type eventLimiter struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip sends a request, and an event when it is its turn.
func (f eventLimiter) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isEventWrite(req) {
		return f.next.RoundTrip(req)
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
		return f.next.RoundTrip(req)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

func isEventWrite(req *http.Request) bool {
	return req.Method != http.MethodGet && strings.HasPrefix(req.URL.Path, "/apis/events.k8s.io/")
}
