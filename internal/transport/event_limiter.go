package transport

import (
	"net/http"
	"strings"
)

// maxConcurrentEventWrites limits the events that are written at the same time.
const maxConcurrentEventWrites = 4

// eventLimiter limits concurrent writes of events. The recorder sends each event immediately,
// thousands at a time if thousands of applications change, which would delay writes of
// applications.
type eventLimiter struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip sends a request. A write of an event waits for a free slot.
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
