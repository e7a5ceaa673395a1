package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

const (
	// minWatchTimeout is how long the API server is asked to let a watch last: a connection that
	// died unnoticed is found out in this time at the latest. Up to twice as long, so that
	// those who watch do not all come at once.
	minWatchTimeout = 5 * time.Minute
	// connectTimeout is how long a watch may take to begin.
	connectTimeout = 30 * time.Second
	// stableAfter is how long a connection without a word must last to count as a good one.
	stableAfter = 5 * time.Second

	minBackoff = 250 * time.Millisecond
	maxBackoff = 5 * time.Second
)

var (
	errClosed     = errors.New("the connection ended")
	errNoResponse = errors.New("no answer")
)

// follow prints changes after the last version until the connection ends. An end that we
// asked for is no failure.
func (w *watcher) follow(ctx context.Context) error {
	for {
		timeout := minWatchTimeout + time.Duration(rand.Int64N(int64(minWatchTimeout)))
		began := time.Now()
		err := w.watchOnce(ctx, timeout)
		if !errors.Is(err, errClosed) || time.Since(began) < timeout-time.Second {
			if time.Since(began) > stableAfter {
				w.failures = 0
			}
			return err
		}
	}
}

func (w *watcher) watchOnce(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(connectTimeout, func() { cancel(errNoResponse) })
	defer timer.Stop()
	o := w.listOptions
	o.ResourceVersion, o.AllowWatchBookmarks = w.version, true
	o.TimeoutSeconds = new(int64(timeout.Seconds()))
	stream, err := w.source.Watch(ctx, o)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer stream.Stop()
	timer.Reset(timeout + connectTimeout)
	if err := w.reportReconnect(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-stream.ResultChan():
			if !ok {
				return errClosed
			}
			if err := w.handleEvent(e); err != nil {
				return err
			}
		}
	}
}

// reportReconnect says so if the opposite was said.
func (w *watcher) reportReconnect() error {
	if w.reconnecting {
		w.reconnecting = false
		w.counts.Reconnects++
	}
	if w.disconnectedSince.IsZero() {
		return nil
	}
	downtime := w.now().Sub(w.disconnectedSince).Round(time.Second)
	w.disconnectedSince = time.Time{}
	return w.printNotice(NoticeConnected, "", fmt.Sprintf("connected to %s again after %s", w.server, downtime))
}

// handleEvent takes one message. The version moves on only after the change was printed.
func (w *watcher) handleEvent(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || o.GetResourceVersion() == "" {
		return fmt.Errorf("the API server sent a %T of no version", e.Object)
	}
	if e.Type != watch.Bookmark {
		if err := w.observe(e.Type, o, nil); err != nil {
			return err
		}
	}
	w.version, w.lastEventTime, w.failures, w.relisted = o.GetResourceVersion(), w.now(), 0, false
	return nil
}

// relist finds out what became of the objects while nobody could say how. What is printed
// is the difference; what came and went in between stays unknown.
func (w *watcher) relist(ctx context.Context, expired error) error {
	objects, version, err := w.list(ctx)
	if err != nil {
		return err
	}
	gap := &Gap{Since: w.lastEventTime.UTC(), After: w.version, Until: version}
	w.counts.Relists++
	w.disconnectedSince = time.Time{}
	err = w.printer.printNotice(Notice{
		Type: NoticeRelisted, Time: w.now().UTC(), Gap: gap, Error: expired.Error(),
		Message: fmt.Sprintf("re-listed %s: %s no longer had the changes after version %s (%v). Blind since %s: what differs now follows as missed, what came and went in between is unknown",
			w.description, w.server, w.version, expired, formatTime(w.lastEventTime)),
	})
	if err != nil {
		return err
	}
	listed := map[key]bool{}
	for _, o := range objects {
		listed[keyOf(o)] = true
	}
	for _, k := range sortedKeys(w.objects) {
		if !listed[k] {
			if err := w.observe(watch.Deleted, withoutVersion(w.objects[k]), gap); err != nil {
				return err
			}
		}
	}
	for _, o := range objects {
		if err := w.observe(watch.Modified, o, gap); err != nil {
			return err
		}
	}
	w.version, w.lastEventTime, w.relisted = version, w.now(), true
	return nil
}

// backOff lets some time pass after a failure. The first one is worth neither time nor a word:
// connections end all the time, and nothing is lost by it.
func (w *watcher) backOff(ctx context.Context, err error) error {
	if w.failures++; w.failures == 1 {
		return nil
	}
	d := min(minBackoff<<min(w.failures-2, 10), maxBackoff)
	d += time.Duration(rand.Int64N(int64(d) / 4))
	if w.disconnectedSince.IsZero() {
		w.disconnectedSince = w.now()
	}
	message := fmt.Sprintf("cannot watch %s at %s: %v; next try in %s, heard last at %s",
		w.description, w.server, cli.WithHint(err), d.Round(100*time.Millisecond), formatTime(w.lastEventTime))
	if err := w.printNotice(NoticeDisconnected, err.Error(), message); err != nil {
		return err
	}
	w.sleep(ctx, d)
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (w *watcher) printNotice(noticeType, err, message string) error {
	return w.printer.printNotice(Notice{Type: noticeType, Time: w.now().UTC(), Error: err, Message: message, Counts: w.countsFor(noticeType)})
}

// isExpired says that the API server cannot tell what happened since our version: it is too
// old, or the server was set back and has not come so far yet.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		err != nil && strings.Contains(err.Error(), "too old resource version")
}

// isWatchUnsupported says that no other time is better: there is no watch for this kind.
func isWatchUnsupported(err error) bool { return apierrors.IsMethodNotSupported(err) }

// listTimeoutSource lists no longer than --request-timeout.
type listTimeoutSource struct {
	source
	timeout time.Duration
}

func (p listTimeoutSource) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	return p.source.List(ctx, o)
}
