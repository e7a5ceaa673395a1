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
	// lasting is how long the API server is asked to let a watch last: a connection that
	// died unnoticed is found out in this time at the latest. Up to twice as long, so that
	// those who watch do not all come at once.
	lasting = 5 * time.Minute
	// answering is how long a watch may take to begin.
	answering = 30 * time.Second
	// settled is how long a connection without a word must last to count as a good one.
	settled = 5 * time.Second

	minPause = 250 * time.Millisecond
	maxPause = 5 * time.Second
)

var (
	errClosed = errors.New("the connection ended")
	errSilent = errors.New("no answer")
)

// follow prints changes after the last version until the connection ends. An end that we
// asked for is no failure.
func (w *watcher) follow(ctx context.Context) error {
	for {
		lasts := lasting + time.Duration(rand.Int64N(int64(lasting)))
		began := time.Now()
		err := w.connection(ctx, lasts)
		if !errors.Is(err, errClosed) || time.Since(began) < lasts-time.Second {
			if time.Since(began) > settled {
				w.failures = 0
			}
			return err
		}
	}
}

func (w *watcher) connection(ctx context.Context, lasts time.Duration) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	alarm := time.AfterFunc(answering, func() { cut(errSilent) })
	defer alarm.Stop()
	o := w.selectors
	o.ResourceVersion, o.AllowWatchBookmarks = w.version, true
	o.TimeoutSeconds = new(int64(lasts.Seconds()))
	stream, err := w.source.Watch(ctx, o)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer stream.Stop()
	alarm.Reset(lasts + answering)
	if err := w.connected(); err != nil {
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
			if err := w.receive(e); err != nil {
				return err
			}
		}
	}
}

// connected says so if the opposite was said.
func (w *watcher) connected() error {
	if w.again {
		w.again = false
		w.counts.Reconnects++
	}
	if w.lost.IsZero() {
		return nil
	}
	away := w.now().Sub(w.lost).Round(time.Second)
	w.lost = time.Time{}
	return w.notice(NoticeConnected, "", fmt.Sprintf("connected to %s again after %s", w.server, away))
}

// receive takes one message. The version moves on only after the change was printed.
func (w *watcher) receive(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok || o.GetResourceVersion() == "" {
		return fmt.Errorf("the API server sent a %T of no version", e.Object)
	}
	if e.Type != watch.Bookmark {
		if err := w.see(e.Type, o, nil); err != nil {
			return err
		}
	}
	w.version, w.heard, w.failures, w.relisted = o.GetResourceVersion(), w.now(), 0, false
	return nil
}

// relist finds out what became of the objects while nobody could say how. What is printed
// is the difference; what came and went in between stays unknown.
func (w *watcher) relist(ctx context.Context, why error) error {
	objects, version, err := w.list(ctx)
	if err != nil {
		return err
	}
	missed := &Missed{Since: w.heard.UTC(), After: w.version, Until: version}
	w.counts.Relists++
	w.lost = time.Time{}
	err = w.print.notice(Notice{
		Type: NoticeRelisted, Time: w.now().UTC(), Missed: missed, Error: why.Error(),
		Message: fmt.Sprintf("re-listed %s: %s no longer had the changes after version %s (%v). Blind since %s: what differs now follows as missed, what came and went in between is unknown",
			w.what, w.server, w.version, why, clock(w.heard)),
	})
	if err != nil {
		return err
	}
	listed := map[key]bool{}
	for _, o := range objects {
		listed[keyOf(o)] = true
	}
	for _, k := range sortedKeys(w.held) {
		if !listed[k] {
			if err := w.see(watch.Deleted, gone(w.held[k]), missed); err != nil {
				return err
			}
		}
	}
	for _, o := range objects {
		if err := w.see(watch.Modified, o, missed); err != nil {
			return err
		}
	}
	w.version, w.heard, w.relisted = version, w.now(), true
	return nil
}

// wait lets some time pass after a failure. The first one is worth neither time nor a word:
// connections end all the time, and nothing is lost by it.
func (w *watcher) wait(ctx context.Context, err error) error {
	if w.failures++; w.failures == 1 {
		return nil
	}
	d := min(minPause<<min(w.failures-2, 10), maxPause)
	d += time.Duration(rand.Int64N(int64(d) / 4))
	if w.lost.IsZero() {
		w.lost = w.now()
	}
	message := fmt.Sprintf("cannot watch %s at %s: %v; next try in %s, heard last at %s",
		w.what, w.server, cli.Explained(err), d.Round(100*time.Millisecond), clock(w.heard))
	if err := w.notice(NoticeDisconnected, err.Error(), message); err != nil {
		return err
	}
	w.pause(ctx, d)
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (w *watcher) notice(kind, err, message string) error {
	return w.print.notice(Notice{Type: kind, Time: w.now().UTC(), Error: err, Message: message, Counts: w.countsAt(kind)})
}

// isExpired says that the API server cannot tell what happened since our version: it is too
// old, or the server was set back and has not come so far yet.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		err != nil && strings.Contains(err.Error(), "too old resource version")
}

// isImpossible says that no other time is better: there is no watch for this kind.
func isImpossible(err error) bool { return apierrors.IsMethodNotSupported(err) }

// patient lists no longer than --request-timeout.
type patient struct {
	source
	patience time.Duration
}

func (p patient) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if p.patience > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, p.patience)
		defer end()
	}
	return p.source.List(ctx, o)
}
