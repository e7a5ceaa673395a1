package registry

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

// firstPause is how long after it was refused an informer tries again, for the first time.
const firstPause = 500 * time.Millisecond

// informer follows the objects of one key.
type informer struct {
	registry *Registry
	key      Key
	kind     Kind
	cancel   context.CancelFunc
	after    <-chan struct{} // when the one before it has ended
	done     chan struct{}

	mu     sync.Mutex
	status Status
	cut    bool // the stream broke off, and everything has to be read anew
}

// run asks whether it may, and then follows until it may no longer.
func (i *informer) run(ctx context.Context) {
	defer i.registry.ended(i)
	defer close(i.done)
	if i.after != nil {
		<-i.after
	}
	defer func() {
		if i.registry.run.Err() == nil { // at the end of everything nothing is gone
			i.forget()
		}
	}()
	// A resource that was just defined is served a moment later; what is forbidden stays so.
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, i.registry.Again) {
		lists := i.Status().Lists
		if err := i.allowed(ctx); err != nil {
			i.refused(err)
		} else {
			i.follow(ctx)
		}
		if i.Status().Lists > lists {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-i.registry.Clock.After(pause + rand.N(pause/2)): //nolint:gosec // nothing secret depends on it
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

// forget empties the sink.
func (i *informer) forget() {
	i.sink().Replace(i.kind.GroupVersionKind, i.key.Namespace, nil)
}

// allowed asks before anything is listed: a refusal would otherwise be an error that comes
// again and again.
func (i *informer) allowed(ctx context.Context) error {
	c, err := authclient.NewForConfigAndClient(i.registry.Config, i.registry.http)
	if err != nil {
		return err
	}
	for _, verb := range []string{"list", "watch"} {
		review := &authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Verb: verb, Group: i.key.Resource.Group, Version: i.key.Resource.Version, Resource: i.key.Resource.Resource, Namespace: i.key.Namespace,
		}}}
		answer, err := c.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask whether %s may be read: %w", i.key, err)
		}
		if !answer.Status.Allowed {
			return apierrors.NewForbidden(i.key.Resource.GroupResource(), "", fmt.Errorf("the center may not %s %s; give its ClusterRole this right", verb, i.key))
		}
	}
	return nil
}

// follow lists and watches until that is refused.
func (i *informer) follow(ctx context.Context) {
	inner, err := i.kind.source(i.registry, i.key.Namespace)
	if err != nil {
		i.refused(err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slow := backoff
	from := &source{inner: inner, informer: i, stop: cancel}
	r := cache.NewReflectorWithOptions(from, nil, (*sink)(i), cache.ReflectorOptions{
		Name: "center", TypeDescription: i.key.String(), Clock: i.registry.Clock, Backoff: &slow,
	})
	// What it would log at every attempt, the state says once.
	r.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// refused notes why it cannot follow, and says whether trying again at once is pointless. What
// it may not read any more, or what there is no more, it forgets.
func (i *informer) refused(err error) bool {
	state := Stale
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		state = Forbidden
	case meta.IsNoMatchError(err), isNoResource(err):
		state = Gone
	}
	if state == Stale {
		if i.Status().State == Syncing { // never read anything
			state = Syncing
		}
		i.say(state, err.Error())
		return false
	}
	i.forget()
	i.say(state, err.Error())
	return true
}

// isNoResource says that the API server does not know the resource: its CRD is gone.
func isNoResource(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && s.Status().Code == http.StatusNotFound
}

func (i *informer) say(state State, message string) {
	i.change(func(s *Status) {
		if s.State != state {
			s.State, s.Since = state, i.registry.Clock.Now()
		}
		s.Message = message
	})
}

// change changes the status, and tells it when the state is another one.
func (i *informer) change(f func(*Status)) {
	i.mu.Lock()
	before := i.status.State
	f(&i.status)
	after := i.status
	i.mu.Unlock()
	if before != after.State && i.registry.Changed != nil {
		i.registry.Changed(after)
	}
}

// Status is how it is now, without the number of objects, which the sink knows.
func (i *informer) Status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.status
}

// heard notes that the stream is alive.
func (i *informer) heard(resourceVersion string, events int64, f func(*Status)) {
	i.change(func(s *Status) {
		s.ResourceVersion, s.Heard = resourceVersion, i.registry.Clock.Now()
		s.Events += events
		if f != nil {
			f(s)
		}
	})
}

// sink is an informer as its reflector sees it.
type sink informer

// Transformer projects objects before they are collected, so that a first list never has all of
// them whole in memory.
func (s *sink) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.project(obj), nil }
}

func (s *sink) project(obj any) runtime.Object {
	o := obj.(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind) // clients of one kind leave it out
	if s.kind.sink == nil && s.registry.Project != nil {
		return s.registry.Project(o)
	}
	return o
}

func (s *sink) Add(obj any) error    { return s.set(obj) }
func (s *sink) Update(obj any) error { return s.set(obj) }

func (s *sink) set(obj any) error {
	i := (*informer)(s)
	o := s.project(obj)
	i.sink().Set(o)
	i.heard(versionOf(o), 1, nil)
	return nil
}

func (s *sink) Delete(obj any) error {
	i := (*informer)(s)
	o := obj.(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(s.kind.GroupVersionKind)
	i.sink().Delete(o)
	i.heard(versionOf(o), 1, nil)
	return nil
}

// Replace is everything there is. From now on every change is heard of.
func (s *sink) Replace(all []any, resourceVersion string) error {
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
	i.heard(resourceVersion, 0, func(st *Status) {
		st.Message = ""
		st.Lists++
		if st.State != Live && !s.cut { // it may break off as soon as everything was read
			st.State, st.Since = Live, i.registry.Clock.Now()
		}
	})
	return nil
}

// Bookmark is heard when nothing has changed for a while.
func (s *sink) Bookmark(resourceVersion string) error {
	(*informer)(s).heard(resourceVersion, 0, nil)
	return nil
}

func (s *sink) Resync() error { return nil }

func versionOf(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}
