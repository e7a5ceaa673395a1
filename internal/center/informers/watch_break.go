package informers

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errWatchBroken makes the reflector read everything anew.
var errWatchBroken = errors.New("the stream of changes broke off, and is not taken up again: what was missed could not be told from what never happened")

// watchBreakDetector lists and watches, and notices when a stream of changes breaks off.
//
// A reflector takes a broken stream up where it ended. That loses nothing, but nobody can tell
// when it has caught up: until then it would show what is gone. So a stream that ended in time,
// as every stream does after some minutes, is taken up; after any other end everything is read
// anew, and the end of that is a mark that says: from here on you are up to date.
type watchBreakDetector struct {
	inner    cache.ListerWatcherWithContext
	informer *informer
	stop     func() // when trying again is pointless
}

func (s *watchBreakDetector) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s *watchBreakDetector) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext lists what there is now, not what a cache knew a while ago. It is for API
// servers that do not stream lists.
func (s *watchBreakDetector) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue == "" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	s.clearBroken()
	list, err := s.inner.ListWithContext(ctx, o)
	if err != nil {
		s.handleError(ctx, err)
	}
	return list, err
}

func (s *watchBreakDetector) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		o.ResourceVersion = "" // as of now
		s.clearBroken()
	}
	if s.isBroken() {
		return nil, errWatchBroken
	}
	w, err := s.inner.WatchWithContext(ctx, o)
	if err != nil {
		s.handleError(ctx, err)
		return nil, err
	}
	var expectedEnd time.Time
	if o.TimeoutSeconds != nil {
		expectedEnd = s.informer.registry.Clock.Now().Add(time.Duration(*o.TimeoutSeconds)*time.Second - earlyEndTolerance)
	}
	return s.proxyWatch(ctx, w, expectedEnd), nil
}

// earlyEndTolerance is how much before its time a stream may end and still have ended in time.
const earlyEndTolerance = 5 * time.Second

// proxyWatch passes changes on, and notices how the stream ends.
func (s *watchBreakDetector) proxyWatch(ctx context.Context, w watch.Interface, expectedEnd time.Time) watch.Interface {
	out := make(chan watch.Event)
	p := watch.NewProxyWatcher(out)
	go func() {
		defer close(out)
		defer w.Stop()
		for {
			select {
			case e, ok := <-w.ResultChan():
				switch {
				case !ok && s.informer.registry.Clock.Now().Before(expectedEnd):
					s.markBroken(ctx, "the stream of changes broke off")
					return
				case !ok:
					return
				case e.Type == watch.Error:
					s.markBroken(ctx, "the stream of changes ended with an error")
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

// handleError notes why nothing can be read.
func (s *watchBreakDetector) handleError(ctx context.Context, err error) {
	s.markBroken(ctx, err.Error())
	if ctx.Err() == nil && s.informer.handleListError(err) {
		s.stop()
	}
}

// markBroken says that changes are missed from now on, unless it is we who stop.
func (s *watchBreakDetector) markBroken(ctx context.Context, reason string) {
	if ctx.Err() != nil {
		return
	}
	s.informer.updateStatus(func(st *Status) {
		s.informer.broken = true
		st.Disconnects++
		if st.State == Live {
			st.State, st.Since, st.Message = Stale, s.informer.registry.Clock.Now(), reason
		}
	})
}

// clearBroken says that everything is read anew.
func (s *watchBreakDetector) clearBroken() {
	s.informer.updateStatus(func(*Status) { s.informer.broken = false })
}

func (s *watchBreakDetector) isBroken() bool {
	s.informer.mu.Lock()
	defer s.informer.mu.Unlock()
	return s.informer.broken
}
