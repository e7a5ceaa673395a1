package informers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	authclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// backoff is the reconnect backoff of a broken watch.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 5 * time.Second}

// initialRetryDelay is the first retry delay after an access error.
const initialRetryDelay = 500 * time.Millisecond

// informer lists and watches the objects of one key.
type informer struct {
	registry        *Registry
	key             Key
	kind            Kind
	cancel          context.CancelFunc
	predecessorDone <-chan struct{} // closed when the previous informer of the key has ended
	done            chan struct{}

	mu     sync.Mutex
	status Status
	broken bool // the watch was interrupted and a new list is required
}

// run checks the permissions, then lists and watches. It retries until the context ends.
func (i *informer) run(ctx context.Context) {
	defer i.registry.informerStopped(i)
	defer close(i.done)
	if i.predecessorDone != nil {
		<-i.predecessorDone
	}
	defer func() {
		if i.registry.runCtx.Err() == nil { // on shutdown the objects still exist
			i.clearSink()
		}
	}()
	// A newly defined resource is served after a short delay, so the first retries are fast. Permissions
	// change rarely, so the delay doubles.
	for delay := initialRetryDelay; ctx.Err() == nil; delay = min(2*delay, i.registry.RetryInterval) {
		lists := i.Status().Lists
		if err := i.checkAccess(ctx); err != nil {
			i.handleListError(err)
		} else {
			i.listAndWatch(ctx)
		}
		if i.Status().Lists > lists {
			delay = initialRetryDelay
		}
		select {
		case <-ctx.Done():
		case <-i.registry.Clock.After(delay + rand.N(delay/2)): //nolint:gosec // nothing secret depends on it
		}
	}
}

// sink returns the receiver of the objects.
func (i *informer) sink() Sink {
	if i.kind.sink != nil {
		return i.kind.sink
	}
	return i.registry.Sink
}

// clearSink removes the objects of the informer from the sink.
func (i *informer) clearSink() {
	i.sink().Replace(i.kind.GroupVersionKind, i.key.Namespace, nil)
}

// checkAccess reviews the permissions before the first list, so that missing permissions do not cause
// repeated failing requests.
func (i *informer) checkAccess(ctx context.Context) error {
	c, err := authclient.NewForConfigAndClient(i.registry.Config, i.registry.http)
	if err != nil {
		return err
	}
	for _, verb := range []string{"list", "watch"} {
		review := &authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Verb: verb, Group: i.key.Resource.Group, Version: i.key.Resource.Version, Resource: i.key.Resource.Resource, Namespace: i.key.Namespace,
		}}}
		result, err := c.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("review permission to read %s: %w", i.key, err)
		}
		if !result.Status.Allowed {
			return apierrors.NewForbidden(i.key.Resource.GroupResource(), "",
				fmt.Errorf("the center is not allowed to %s %s; add this permission to its ClusterRole", verb, i.key))
		}
	}
	return nil
}

// listAndWatch lists and watches until access is denied or the context ends.
func (i *informer) listAndWatch(ctx context.Context) {
	inner, err := i.kind.listerWatcher(i.registry, i.key.Namespace)
	if err != nil {
		i.handleListError(err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reconnectBackoff := backoff
	lw := &watchBreakDetector{inner: inner, informer: i, stop: cancel}
	r := cache.NewReflectorWithOptions(lw, nil, (*reflectorStore)(i), cache.ReflectorOptions{
		Name: "center", TypeDescription: i.key.String(), Clock: i.registry.Clock, Backoff: &reconnectBackoff,
	})
	// The reflector would log every attempt; the error is in the status.
	r.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// handleListError records an error in the status and reports whether an immediate retry is useless. It removes
// the objects if access is denied or the resource no longer exists.
func (i *informer) handleListError(err error) bool {
	state := Stale
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		state = Forbidden
	case meta.IsNoMatchError(err), isResourceNotFound(err):
		state = Gone
	}
	if state == Stale {
		if i.Status().State == Syncing { // never synced
			state = Syncing
		}
		i.setState(state, err.Error())
		return false
	}
	i.clearSink()
	i.setState(state, err.Error())
	return true
}

// isResourceNotFound reports whether the API server does not serve the resource, for example because its CRD
// was deleted.
func isResourceNotFound(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && s.Status().Code == http.StatusNotFound
}

func (i *informer) setState(state State, message string) {
	i.updateStatus(func(s *Status) {
		if s.State != state {
			s.State, s.Since = state, i.registry.Clock.Now()
		}
		s.Message = message
	})
}

// updateStatus changes the status and calls OnStateChange if the state has changed.
func (i *informer) updateStatus(mutate func(*Status)) {
	i.mu.Lock()
	before := i.status.State
	mutate(&i.status)
	after := i.status
	i.mu.Unlock()
	if before != after.State && i.registry.OnStateChange != nil {
		i.registry.OnStateChange(after)
	}
}

// Status returns the current status, without the number of objects.
func (i *informer) Status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.status
}

// recordProgress records received data in the status.
func (i *informer) recordProgress(resourceVersion string, events int64, mutate func(*Status)) {
	i.updateStatus(func(s *Status) {
		s.ResourceVersion, s.LastUpdate = resourceVersion, i.registry.Clock.Now()
		s.Events += events
		if mutate != nil {
			mutate(s)
		}
	})
}

// reflectorStore implements the store of the reflector of an informer.
type reflectorStore informer

// Transformer projects objects as they are decoded, so that the initial list never holds all complete objects
// in memory.
func (s *reflectorStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.project(obj), nil }
}

func (s *reflectorStore) project(obj any) runtime.Object {
	o := obj.(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind) // typed clients do not set it
	if s.kind.sink == nil && s.registry.Project != nil {
		return s.registry.Project(o)
	}
	return o
}

func (s *reflectorStore) Add(obj any) error    { return s.set(obj) }
func (s *reflectorStore) Update(obj any) error { return s.set(obj) }

func (s *reflectorStore) set(obj any) error {
	i := (*informer)(s)
	o := s.project(obj)
	i.sink().Set(o)
	i.recordProgress(resourceVersionOf(o), 1, nil)
	return nil
}

func (s *reflectorStore) Delete(obj any) error {
	i := (*informer)(s)
	o := obj.(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind)
	i.sink().Delete(o)
	i.recordProgress(resourceVersionOf(o), 1, nil)
	return nil
}

// Replace stores the result of a list. The informer is live from now on.
func (s *reflectorStore) Replace(all []any, resourceVersion string) error {
	i := (*informer)(s)
	objects := make([]runtime.Object, 0, len(all))
	for _, obj := range all {
		o := obj.(runtime.Object)
		if o.GetObjectKind().GroupVersionKind().Empty() { // from a plain list, which does not call Transformer
			o = s.project(obj)
		}
		objects = append(objects, o)
	}
	i.sink().Replace(i.kind.GroupVersionKind, i.key.Namespace, objects)
	i.recordProgress(resourceVersion, 0, func(st *Status) {
		st.Message = ""
		st.Lists++
		if st.State != Live && !s.broken { // the watch may be interrupted right after the list
			st.State, st.Since = Live, i.registry.Clock.Now()
		}
	})
	return nil
}

// Bookmark records the progress of a watch without changes.
func (s *reflectorStore) Bookmark(resourceVersion string) error {
	(*informer)(s).recordProgress(resourceVersion, 0, nil)
	return nil
}

func (s *reflectorStore) Resync() error { return nil }

func resourceVersionOf(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}
