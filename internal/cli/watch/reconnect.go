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
	// minWatchTimeout is the minimum timeout requested for a watch, which detects broken connections.
	// The requested timeout is random, up to twice as long, so that clients do not reconnect at once.
	minWatchTimeout = 5 * time.Minute
	// connectTimeout limits the start of a watch.
	connectTimeout = 30 * time.Second
	// stableAfter is the duration after which a connection without events resets the backoff.
	stableAfter = 5 * time.Second

	minBackoff = 250 * time.Millisecond
	maxBackoff = 5 * time.Second
)

var (
	errClosed     = errors.New("the connection was closed")
	errNoResponse = errors.New("no response")
)

// follow prints changes after the last version until the connection fails. It restarts a watch that ends
// with the requested timeout.
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

// reportReconnect prints a notice if a disconnect was reported before.
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
	return w.printNotice(NoticeConnected, "", fmt.Sprintf("reconnected to %s after %s", w.server, downtime))
}

// handleEvent processes one event. The version advances only after the change was printed.
func (w *watcher) handleEvent(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || o.GetResourceVersion() == "" {
		return fmt.Errorf("the API server sent a %T without a resourceVersion", e.Object)
	}
	if e.Type != watch.Bookmark {
		if err := w.observe(e.Type, o, nil); err != nil {
			return err
		}
	}
	w.version, w.lastEventTime, w.failures, w.relisted = o.GetResourceVersion(), w.now(), 0, false
	return nil
}

// relist lists the objects after events were lost and prints the differences. Objects that were created
// and deleted in between remain unknown.
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
		Message: fmt.Sprintf(
			"re-listed %s: %s no longer had the changes after version %s (%v). Events since %s were lost; the differences are shown as missed",
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

// backOff waits after a failure. After the first failure it returns immediately and without a notice,
// because closed connections are normal.
func (w *watcher) backOff(ctx context.Context, err error) error {
	if w.failures++; w.failures == 1 {
		return nil
	}
	d := min(minBackoff<<min(w.failures-2, 10), maxBackoff)
	d += time.Duration(rand.Int64N(int64(d) / 4))
	if w.disconnectedSince.IsZero() {
		w.disconnectedSince = w.now()
	}
	message := fmt.Sprintf("cannot watch %s at %s: %v; retrying in %s, last event at %s",
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

// isExpired reports whether the API server does not have our version: it is too old, or newer than the
// server after a restore from a backup.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		err != nil && strings.Contains(err.Error(), "too old resource version")
}

// isWatchUnsupported reports whether the kind does not support watch, so that a retry is useless.
func isWatchUnsupported(err error) bool { return apierrors.IsMethodNotSupported(err) }

// listTimeoutSource limits lists to --request-timeout.
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
