package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	judge, gone, err := goalOf(o.until)
	if err != nil {
		return err
	}
	c, err := env.Watcher()
	if err != nil {
		return err
	}
	app, err := env.Find(ctx, c, args)
	var missing *cli.NotFoundError
	if gone && errors.As(err, &missing) {
		fmt.Fprintf(out, "%s is not there in namespace %s.\n", strings.Join(args, " "), missing.Namespace)
		return nil
	}
	if err != nil {
		return err
	}
	w := &waiting{app: app, judge: judge, gone: gone, out: out, errOut: errOut}
	if o.timeout <= 0 {
		w.errOut = io.Discard
	}
	// What was found is already the first look: however short the time is, its end has a reason.
	if done, err := w.see(app); done {
		return err
	}
	if o.timeout <= 0 {
		fmt.Fprintf(errOut, "%s is not %s: %s\n", application.Title(app), o.until, w.last)
		return cli.ErrNotReady
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err = w.follow(limited, c)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted while waiting for %s: %s", application.Title(app), w.last)
	case limited.Err() != nil:
		fmt.Fprintf(errOut, "%s is not %s after %s: %s\n", application.Title(app), o.until, o.timeout, w.last)
		return cli.ErrNotReady
	}
	return err
}

// waiting is a wait for one application.
type waiting struct {
	app         application.Application
	judge       goal
	gone        bool
	out, errOut io.Writer
	// last is what it waits for.
	last string
}

// see looks at the application as it is now, or nil when it is gone. done says that there is
// nothing more to wait for.
func (w *waiting) see(app application.Application) (done bool, err error) {
	title := application.Title(w.app)
	if app == nil || app.GetUID() != w.app.GetUID() {
		if w.gone {
			fmt.Fprintf(w.out, "%s is gone.\n", title)
			return true, nil
		}
		return true, fmt.Errorf("%s was deleted while it was waited for; create it again from its manifest", title)
	}
	v := w.judge(app)
	switch {
	case v.reached:
		fmt.Fprintf(w.out, "%s %s\n", title, v.sentence)
		return true, nil
	case v.never:
		return true, fmt.Errorf("%s %s", title, v.sentence)
	case v.sentence != w.last:
		fmt.Fprintf(w.errOut, "Waiting for %s: %s\n", title, v.sentence)
		w.last = v.sentence
	}
	return false, nil
}

// pause is how long the API server is left alone after it broke off.
const pause = time.Second

// follow looks at the application whenever it changes. A watch that breaks off is begun anew
// with a look at what is there: nothing is missed, and nothing is asked again and again.
func (w *waiting) follow(ctx context.Context, c client.WithWatch) error {
	for {
		done, err := w.once(ctx, c)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || meta.IsNoMatchError(err):
			return fmt.Errorf("watch %s: %w", application.Title(w.app), cli.Explained(err))
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err): // a long silence
		case err != nil && err.Error() != w.last:
			fmt.Fprintf(w.errOut, "Lost sight of %s, trying again: %v\n", application.Title(w.app), err)
			w.last = err.Error()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// once looks and then watches, until that breaks off.
func (w *waiting) once(ctx context.Context, c client.WithWatch) (done bool, err error) {
	kind, err := application.KindCalled(strings.ToLower(application.KindOf(w.app)))
	if err != nil {
		return true, err
	}
	list := kind.NewList()
	only := []client.ListOption{client.InNamespace(w.app.GetNamespace()), client.MatchingFields{"metadata.name": w.app.GetName()}}
	if err := c.List(ctx, list, only...); err != nil {
		return false, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return true, err
	}
	var app application.Application
	if len(objects) > 0 {
		app, _ = objects[0].(application.Application)
	}
	if done, err := w.see(app); done {
		return true, err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true}}
	events, err := c.Watch(ctx, list, append(only, from)...)
	if err != nil {
		return false, err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			app, _ := event.Object.(application.Application)
			if event.Type == watch.Deleted {
				app = nil
			}
			if done, err := w.see(app); done {
				return true, err
			}
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		case watch.Bookmark:
		}
	}
	return false, nil
}
