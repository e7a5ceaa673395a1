package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// unreachableRetryInterval is short: informers that back off add their own delay, up to a
	// minute, to every outage of the API server.
	unreachableRetryInterval = time.Second
	// missingKindRetryInterval is longer, because the CRD may never be installed.
	missingKindRetryInterval = 5 * time.Second
)

// RetryInformers returns a copy of cfg whose informers, created with [NewInformer], wait for an
// API server that cannot be reached and for a CRD that is not installed. All other requests fail
// at once: a reconcile must not block. Writes of events are limited.
func RetryInformers(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	slots := make(chan struct{}, maxConcurrentEventWrites)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return informerRetry{next: eventLimiter{next: next, slots: slots}, unreachableInterval: unreachableRetryInterval, missingKindInterval: missingKindRetryInterval}
	})
	return cfg
}

// NewInformer is cache.Options.NewInformer of controller-runtime: it creates an informer whose
// requests [RetryInformers] recognizes. The URL cannot tell them apart: a list of a reconcile has
// the same parameters.
func NewInformer(lw cache.ListerWatcher, object runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	source := cache.ToListerWatcherWithContext(lw)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return source.ListWithContext(withInformer(ctx), options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return source.WatchWithContext(withInformer(ctx), options)
		},
	}, object, resync, indexers)
}

type informerKey struct{}

func withInformer(ctx context.Context) context.Context {
	return context.WithValue(ctx, informerKey{}, true)
}

func isInformerRequest(req *http.Request) bool {
	return req.Context().Value(informerKey{}) != nil
}

type informerRetry struct {
	next                                     http.RoundTripper
	unreachableInterval, missingKindInterval time.Duration
}

// RoundTrip sends a request, and repeats that of an informer while the API server cannot be
// reached or does not serve the kind.
func (r informerRetry) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		response, err := r.next.RoundTrip(req)
		interval := r.unreachableInterval
		switch {
		case !isInformerRequest(req):
			return response, err
		case err == nil && response.StatusCode == http.StatusNotFound:
			interval, err = r.missingKindInterval, errKindNotServed
			_ = response.Body.Close() // its body has no further information
			if attempt == 0 {
				klog.FromContext(req.Context()).Info("Kind not found, waiting for its CRD", "path", req.URL.Path)
			}
		case err == nil, !isUnreachable(err):
			return response, err
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(interval):
		}
	}
}

var errKindNotServed = errors.New("the API server does not serve this kind")

// isUnreachable reports whether no connection could be made, so that nothing was sent.
func isUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
