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

// backoff is how fast a broken stream is tried again.
var backoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 5 * time.Second}

// initialRetryDelay is how long after it was refused an informer tries again, for the first time.
const initialRetryDelay = 500 * time.Millisecond

// informer follows the objects of one key.
type informer struct {
	registry        *Registry
	key             Key
	kind            Kind
	cancel          context.CancelFunc
	predecessorDone <-chan struct{} // when the one before it has ended
	done            chan struct{}

	mu     sync.Mutex
	status Status
	broken bool // the stream broke off, and everything has to be read anew
}

// run asks whether it may, and then follows until it may no longer.
func (i *informer) run(ctx context.Context) {
	defer i.registry.informerStopped(i)
	defer close(i.done)
	if i.predecessorDone != nil {
		<-i.predecessorDone
	}
	defer func() {
		if i.registry.runCtx.Err() == nil { // at the end of everything nothing is gone
			i.clearSink()
		}
	}()
	// A resource that was just defined is served a moment later; what is forbidden stays so.
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

// sink is who wants to know.
func (i *informer) sink() Sink {
	if i.kind.sink != nil {
		return i.kind.sink
	}
	return i.registry.Sink
}

// clearSink empties the sink.
func (i *informer) clearSink() {
	i.sink().Replace(i.kind.GroupVersionKind, i.key.Namespace, nil)
}

// checkAccess asks before anything is listed: a refusal would otherwise be an error that comes
// again and again.
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
			return fmt.Errorf("ask whether %s may be read: %w", i.key, err)
		}
		if !result.Status.Allowed {
			return apierrors.NewForbidden(i.key.Resource.GroupResource(), "", fmt.Errorf("the center may not %s %s; give its ClusterRole this right", verb, i.key))
		}
	}
	return nil
}

// listAndWatch lists and watches until that is refused.
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
	// What it would log at every attempt, the state says once.
	r.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// handleListError notes why it cannot follow, and says whether trying again at once is pointless. What
// it may not read any more, or what there is no more, it forgets.
func (i *informer) handleListError(err error) bool {
	state := Stale
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		state = Forbidden
	case meta.IsNoMatchError(err), isResourceNotFound(err):
		state = Gone
	}
	if state == Stale {
		if i.Status().State == Syncing { // never read anything
			state = Syncing
		}
		i.setState(state, err.Error())
		return false
	}
	i.clearSink()
	i.setState(state, err.Error())
	return true
}

// isResourceNotFound says that the API server does not know the resource: its CRD is gone.
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

// updateStatus changes the status, and tells it when the state is another one.
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

// Status is how it is now, without the number of objects, which the sink knows.
func (i *informer) Status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.status
}

// recordProgress notes that the stream is alive.
func (i *informer) recordProgress(resourceVersion string, events int64, mutate func(*Status)) {
	i.updateStatus(func(s *Status) {
		s.ResourceVersion, s.LastUpdate = resourceVersion, i.registry.Clock.Now()
		s.Events += events
		if mutate != nil {
			mutate(s)
		}
	})
}

// reflectorStore is an informer as its reflector sees it.
type reflectorStore informer

// Transformer projects objects before they are collected, so that a first list never has all of
// them whole in memory.
func (s *reflectorStore) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.project(obj), nil }
}

func (s *reflectorStore) project(obj any) runtime.Object {
	o := obj.(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind) // clients of one kind leave it out
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

// Replace is everything there is. From now on every change is heard of.
func (s *reflectorStore) Replace(all []any, resourceVersion string) error {
	i := (*informer)(s)
	objects := make([]runtime.Object, 0, len(all))
	for _, obj := range all {
		o := obj.(runtime.Object)
		if o.GetObjectKind().GroupVersionKind().Empty() { // of a plain list, which projects nothing
			o = s.project(obj)
		}
		objects = append(objects, o)
	}
	i.sink().Replace(i.kind.GroupVersionKind, i.key.Namespace, objects)
	i.recordProgress(resourceVersion, 0, func(st *Status) {
		st.Message = ""
		st.Lists++
		if st.State != Live && !s.broken { // it may break off as soon as everything was read
			st.State, st.Since = Live, i.registry.Clock.Now()
		}
	})
	return nil
}

// Bookmark is heard when nothing has changed for a while.
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
