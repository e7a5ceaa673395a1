package registry

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errCut makes the reflector read everything anew.
var errCut = errors.New("the stream of changes broke off, and is not taken up again: what was missed could not be told from what never happened")

// source lists and watches, and notices when a stream of changes breaks off.
//
// A reflector takes a broken stream up where it ended. That loses nothing, but nobody can tell
// when it has caught up: until then it would show what is gone. So a stream that ended in time,
// as every stream does after some minutes, is taken up; after any other end everything is read
// anew, and the end of that is a mark that says: from here on you are up to date.
type source struct {
	inner    cache.ListerWatcherWithContext
	informer *informer
	stop     func() // when trying again is pointless
}

func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext lists what there is now, not what a cache knew a while ago. It is for API
// servers that do not stream lists.
func (s *source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue == "" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	s.afresh()
	list, err := s.inner.ListWithContext(ctx, o)
	if err != nil {
		s.failed(ctx, err)
	}
	return list, err
}

func (s *source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		o.ResourceVersion = "" // as of now
		s.afresh()
	}
	if s.isCut() {
		return nil, errCut
	}
	w, err := s.inner.WatchWithContext(ctx, o)
	if err != nil {
		s.failed(ctx, err)
		return nil, err
	}
	var until time.Time
	if o.TimeoutSeconds != nil {
		until = s.informer.registry.Clock.Now().Add(time.Duration(*o.TimeoutSeconds)*time.Second - early)
	}
	return s.listen(ctx, w, until), nil
}

// early is how much before its time a stream may end and still have ended in time.
const early = 5 * time.Second

// listen passes changes on, and notices how the stream ends.
func (s *source) listen(ctx context.Context, w watch.Interface, until time.Time) watch.Interface {
	out := make(chan watch.Event)
	p := watch.NewProxyWatcher(out)
	go func() {
		defer close(out)
		defer w.Stop()
		for {
			select {
			case e, ok := <-w.ResultChan():
				switch {
				case !ok && s.informer.registry.Clock.Now().Before(until):
					s.broke(ctx, "the stream of changes broke off")
					return
				case !ok:
					return
				case e.Type == watch.Error:
					s.broke(ctx, "the stream of changes ended with an error")
				}
				select {
				case out <- e:
				case <-p.StopChan():
					return
				}
			case <-p.StopChan():
				return
			}
		}
	}()
	return p
}

// failed notes why nothing can be read.
func (s *source) failed(ctx context.Context, err error) {
	s.broke(ctx, err.Error())
	if ctx.Err() == nil && s.informer.refused(err) {
		s.stop()
	}
}

// broke says that changes are missed from now on, unless it is we who stop.
func (s *source) broke(ctx context.Context, why string) {
	if ctx.Err() != nil {
		return
	}
	s.informer.change(func(st *Status) {
		s.informer.cut = true
		st.Cuts++
		if st.State == Live {
			st.State, st.Since, st.Message = Stale, s.informer.registry.Clock.Now(), why
		}
	})
}

// afresh says that everything is read anew.
func (s *source) afresh() { s.informer.change(func(*Status) { s.informer.cut = false }) }

func (s *source) isCut() bool {
	s.informer.mu.Lock()
	defer s.informer.mu.Unlock()
	return s.informer.cut
}
