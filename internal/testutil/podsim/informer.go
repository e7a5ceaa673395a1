package podsim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// newInformer caches all pods.
func newInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return retryWhileUnreachable(ctx, func() (runtime.Object, error) { return pods.List(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return retryWhileUnreachable(ctx, func() (watch.Interface, error) { return pods.Watch(ctx, o) })
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), &corev1.Pod{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	must(informer.SetTransform(withoutManagedFields))
	return informer
}

// must is for calls that fail only on a running informer.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func withoutManagedFields(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	return o, nil
}

const retryInterval = 250 * time.Millisecond

// retryWhileUnreachable retries until the API server responds, even with an error. The informer would back off for up to
// a minute after an outage of the API server, and a late node would distort measurements.
func retryWhileUnreachable[T any](ctx context.Context, request func() (T, error)) (T, error) {
	for {
		result, err := request()
		unreachable := utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
		if !unreachable {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, err
		case <-time.After(retryInterval):
		}
	}
}
