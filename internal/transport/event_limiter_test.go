package transport

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowTransport responds after a delay, and counts concurrent requests.
type slowTransport struct {
	mu                    sync.Mutex
	inFlight, maxInFlight int
}

func (s *slowTransport) RoundTrip(*http.Request) (*http.Response, error) {
	s.addInFlight(1)
	time.Sleep(time.Second)
	s.addInFlight(-1)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (s *slowTransport) addInFlight(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight += n
	s.maxInFlight = max(s.maxInFlight, s.inFlight)
}

func TestEventWritesAreLimited(t *testing.T) {
	const event, deployments = "https://api/apis/events.k8s.io/v1/namespaces/shop/events", "https://api/apis/apps/v1/namespaces/shop/deployments"
	for name, tc := range map[string]struct {
		method, url string
		maxInFlight int
		took        time.Duration
	}{
		"event is created":                         {http.MethodPost, event, 2, 3 * time.Second},
		"event is aggregated":                      {http.MethodPatch, event + "/shop.1", 2, 3 * time.Second},
		"events are listed":                        {http.MethodGet, event, 5, time.Second},
		"other resource is written":                {http.MethodPatch, deployments + "/events", 5, time.Second},
		"namespace with the name of the API group": {http.MethodPatch, "https://api/api/v1/namespaces/events.k8s.io/services/events", 5, time.Second},
		"events of another API group":              {http.MethodPost, "https://api/apis/example.com/v1/namespaces/shop/events", 5, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &slowTransport{}
				limiter := eventLimiter{next: server, slots: make(chan struct{}, 2)}
				start := time.Now()
				done := make(chan error)
				for range 5 {
					go func() {
						done <- roundTrip(t.Context(), limiter, tc.method, tc.url)
					}()
				}
				for range 5 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(start); server.maxInFlight != tc.maxInFlight || took != tc.took {
					t.Errorf("%d concurrent requests in %s; want %d in %s", server.maxInFlight, took, tc.maxInFlight, tc.took)
				}
			})
		})
	}
}

func roundTrip(ctx context.Context, transport http.RoundTripper, method, url string) error {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// TestQueuedEventWriteStopsOnCancel cancels a write of an event that waits for a slot.
func TestQueuedEventWriteStopsOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	limiter := eventLimiter{next: &slowTransport{}, slots: make(chan struct{}, 2)}
	for range cap(limiter.slots) {
		limiter.slots <- struct{}{}
	}
	if err := roundTrip(ctx, limiter, http.MethodPost, "https://api/apis/events.k8s.io/v1/namespaces/shop/events"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
