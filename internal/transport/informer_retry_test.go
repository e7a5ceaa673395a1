package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// flakyTransport fails a number of times, then responds. Without an error it responds with 404.
type flakyTransport struct {
	failures int
	err      error
	attempts atomic.Int32
}

func (f *flakyTransport) RoundTrip(*http.Request) (*http.Response, error) {
	n := int(f.attempts.Add(1))
	switch {
	case n > f.failures:
	case f.err == nil:
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	default:
		return nil, f.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

var errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func TestOnlyInformerRequestsAreRetried(t *testing.T) {
	informer := withInformer(t.Context())
	cases := map[string]struct {
		ctx          context.Context
		method, url  string
		err          error
		wantAttempts int
	}{
		"watch of an informer":             {informer, http.MethodGet, "https://api/pods?watch=true&sendInitialEvents=true", errRefused, 4},
		"list of an informer":              {informer, http.MethodGet, "https://api/pods?limit=500&resourceVersion=0", errRefused, 4},
		"interrupted watch of an informer": {informer, http.MethodGet, "https://api/pods?watch=true", &net.OpError{Op: "read", Err: errors.New("reset")}, 1},
		"watch of a kind without CRD":      {informer, http.MethodGet, "https://api/appstacks?watch=true", nil, 4},
		"list of a kind without CRD":       {informer, http.MethodGet, "https://api/appstacks?limit=500", nil, 4},
		"list of events in a reconcile":    {t.Context(), http.MethodGet, "https://api/events?limit=100", errRefused, 1},
		"list of a missing kind elsewhere": {t.Context(), http.MethodGet, "https://api/appstacks?limit=500", nil, 1},
		"get":                              {t.Context(), http.MethodGet, "https://api/pods/web", errRefused, 1},
		"write":                            {t.Context(), http.MethodPatch, "https://api/pods/web?limit=1", errRefused, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := &flakyTransport{failures: 3, err: tc.err}
			request, err := http.NewRequestWithContext(tc.ctx, tc.method, tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := informerRetry{next: server, unreachableInterval: time.Millisecond, missingKindInterval: time.Millisecond}.RoundTrip(request)
			if err == nil {
				defer func() { _ = response.Body.Close() }()
			}
			if int(server.attempts.Load()) != tc.wantAttempts || (err == nil && response.StatusCode == http.StatusOK) != (tc.wantAttempts == 4) {
				t.Errorf("%d attempts, want %d: %v", server.attempts.Load(), tc.wantAttempts, err)
			}
		})
	}
}

func TestInformerRetryStopsOnCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(withInformer(t.Context()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	server := &flakyTransport{failures: 3, err: errRefused}
	response, err := informerRetry{next: server, unreachableInterval: time.Hour}.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
		t.Error("a canceled request got a response")
	}
}

// TestOutageBlocksInformersOnly checks that during an outage an informer retries every second, and
// a list with the same client and the same parameters fails at once.
func TestOutageBlocksInformersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &flakyTransport{failures: 1 << 30, err: errRefused}
		cfg := RetryInformers(&rest.Config{Host: "https://api", Transport: server})
		client := kubernetes.NewForConfigOrDie(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		informer := NewInformer(cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", fields.Everything()), &corev1.Pod{}, 0, cache.Indexers{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(10500 * time.Millisecond)
		if server.attempts.Load() < 10 {
			t.Errorf("%d attempts of the informer in 10 seconds, want one per second", server.attempts.Load())
		}
		start := time.Now()
		_, err := client.CoreV1().Events("shop").List(ctx, metav1.ListOptions{Limit: 100})
		if err == nil || !strings.Contains(err.Error(), "connection refused") || time.Since(start) > 0 {
			t.Errorf("the list took %s and returned %v, want an error at once", time.Since(start), err)
		}
		cancel()
		<-stopped
	})
}
