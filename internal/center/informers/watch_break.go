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

// errWatchBroken makes the reflector list again.
var errWatchBroken = errors.New("the watch was interrupted; a new list is required")

// watchBreakDetector lists and watches, and detects interrupted watches.
//
// A reflector resumes an interrupted watch. No event is lost, but it is not known when the reflector has caught
// up, and until then deleted objects would be reported as existing. So only a watch that ended at its timeout,
// as every watch does after some minutes, is resumed. After any other end the informer lists again, and the end
// of the list marks the time at which it is up to date.
type watchBreakDetector struct {
	inner    cache.ListerWatcherWithContext
	informer *informer
	stop     func() // called if an immediate retry is useless
}

func (s *watchBreakDetector) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s *watchBreakDetector) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext lists the latest state, not the state of the watch cache. It is used for API servers without
// streaming lists.
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
		o.ResourceVersion = "" // the latest state
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

// earlyEndTolerance is how long before its timeout a watch can end without counting as interrupted.
const earlyEndTolerance = 5 * time.Second

// proxyWatch forwards events and detects how the watch ends.
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
					s.markBroken(ctx, "the watch was interrupted")
					return
				case !ok:
					return
				case e.Type == watch.Error:
					s.markBroken(ctx, "the watch ended with an error")
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

// handleError records a list or watch error.
func (s *watchBreakDetector) handleError(ctx context.Context, err error) {
	s.markBroken(ctx, err.Error())
	if ctx.Err() == nil && s.informer.handleListError(err) {
		s.stop()
	}
}

// markBroken marks the informer as stale, unless the informer itself is stopping.
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

// clearBroken records that a new list has started.
func (s *watchBreakDetector) clearBroken() {
	s.informer.updateStatus(func(*Status) { s.informer.broken = false })
}

func (s *watchBreakDetector) isBroken() bool {
	s.informer.mu.Lock()
	defer s.informer.mu.Unlock()
	return s.informer.broken
}
