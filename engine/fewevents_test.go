package engine

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow answers after a while, and counts who waits for it.
type slow struct {
	mu        sync.Mutex
	now, most int
}

func (s *slow) RoundTrip(*http.Request) (*http.Response, error) {
	s.count(1)
	time.Sleep(time.Second)
	s.count(-1)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (s *slow) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
}

func TestEventsWaitForOneAnother(t *testing.T) {
	const event, child = "https://api/apis/events.k8s.io/v1/namespaces/shop/events", "https://api/apis/apps/v1/namespaces/shop/deployments"
	for name, tc := range map[string]struct {
		method, url string
		most        int
		took        time.Duration
	}{
		"events are written":        {http.MethodPost, event, 2, 3 * time.Second},
		"events become a series":    {http.MethodPatch, event + "/shop.1", 2, 3 * time.Second},
		"events are read":           {http.MethodGet, event, 5, time.Second},
		"anything else is written":  {http.MethodPatch, child + "/events", 5, time.Second},
		"somebody names it so":      {http.MethodPatch, "https://api/api/v1/namespaces/events.k8s.io/services/events", 5, time.Second},
		"the events of another API": {http.MethodPost, "https://api/apis/example.com/v1/namespaces/shop/events", 5, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &slow{}
				gate := fewEvents{next: server, turn: make(chan struct{}, 2)}
				start := time.Now()
				done := make(chan error)
				for range 5 {
					go func() {
						done <- answer(t.Context(), gate, tc.method, tc.url)
					}()
				}
				for range 5 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(start); server.most != tc.most || took != tc.took {
					t.Errorf("%d at once, in %s; want %d in %s", server.most, took, tc.most, tc.took)
				}
			})
		})
	}
}

func answer(ctx context.Context, gate http.RoundTripper, method, url string) error {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	response, err := gate.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// TestEventsEnd stops somebody whose event has to wait.
func TestEventsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gate := fewEvents{next: &slow{}, turn: make(chan struct{}, 2)}
	for range cap(gate.turn) {
		gate.turn <- struct{}{}
	}
	if err := answer(ctx, gate, http.MethodPost, "https://api/apis/events.k8s.io/v1/namespaces/shop/events"); !errors.Is(err, context.Canceled) {
		t.Errorf("answered with %v", err)
	}
}
