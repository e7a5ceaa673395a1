package engine

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"
)

// flakyTransport fails as often as it is told to, and then answers. Without an error it does not
// know the kind.
type flakyTransport struct {
	failures int
	err      error
	tries    int
}

func (a *flakyTransport) RoundTrip(*http.Request) (*http.Response, error) {
	a.tries++
	switch {
	case a.tries > a.failures:
	case a.err == nil:
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	default:
		return nil, a.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestInformerRequestsAreRetried(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	cases := map[string]struct {
		method, url string
		err         error
		wantTries   int
	}{
		"a watch":                     {http.MethodGet, "https://api/pods?watch=true&sendInitialEvents=true", refused, 4},
		"a list":                      {http.MethodGet, "https://api/pods?limit=500&resourceVersion=0", refused, 4},
		"a read of one object":        {http.MethodGet, "https://api/pods/web", refused, 1},
		"a write":                     {http.MethodPatch, "https://api/pods/web?limit=1", refused, 1},
		"a watch that was broken off": {http.MethodGet, "https://api/pods?watch=true", &net.OpError{Op: "read", Err: errors.New("reset")}, 1},
		"a watch of a missing kind":   {http.MethodGet, "https://api/appstacks?watch=true", nil, 4},
		"a list of a missing kind":    {http.MethodGet, "https://api/appstacks?limit=500", nil, 4},
		"an object that is not there": {http.MethodGet, "https://api/appstacks/shop", nil, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := &flakyTransport{failures: 3, err: tc.err}
			request, err := http.NewRequest(tc.method, tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := informerRetry{next: server, unreachableInterval: time.Millisecond, missingKindInterval: time.Millisecond}.RoundTrip(request)
			if err == nil {
				defer func() { _ = response.Body.Close() }()
			}
			if server.tries != tc.wantTries || (err == nil && response.StatusCode == http.StatusOK) != (tc.wantTries == 4) {
				t.Errorf("tried %d times, want %d: %v", server.tries, tc.wantTries, err)
			}
		})
	}
}

// TestInformerRetryStopsOnCancel cancels the request of somebody who is being stopped.
func TestInformerRetryStopsOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	server := &flakyTransport{failures: 3, err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	response, err := informerRetry{next: server, unreachableInterval: time.Hour}.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
		t.Error("it went on")
	}
}
