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
	check, untilDeleted, err := parseCondition(o.condition)
	if err != nil {
		return err
	}
	c, err := env.WatchClient()
	if err != nil {
		return err
	}
	app, err := env.FindApplication(ctx, c, args)
	var notFound *cli.NotFoundError
	if untilDeleted && errors.As(err, &notFound) {
		fmt.Fprintf(out, "%s is not there in namespace %s.\n", strings.Join(args, " "), notFound.Namespace)
		return nil
	}
	if err != nil {
		return err
	}
	w := &waiter{app: app, check: check, untilDeleted: untilDeleted, out: out, errOut: errOut}
	if o.timeout <= 0 {
		w.errOut = io.Discard
	}
	// What was found is already the first look: however short the time is, its end has a reason.
	if done, err := w.evaluate(app); done {
		return err
	}
	if o.timeout <= 0 {
		fmt.Fprintf(errOut, "%s is not %s: %s\n", application.Title(app), o.condition, w.lastMessage)
		return cli.ErrNotReady
	}
	waitCtx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err = w.follow(waitCtx, c)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted while waiting for %s: %s", application.Title(app), w.lastMessage)
	case waitCtx.Err() != nil:
		fmt.Fprintf(errOut, "%s is not %s after %s: %s\n", application.Title(app), o.condition, o.timeout, w.lastMessage)
		return cli.ErrNotReady
	}
	return err
}

// waiter is a wait for one application.
type waiter struct {
	app          application.Application
	check        condition
	untilDeleted bool
	out, errOut  io.Writer
	// lastMessage is what it waits for.
	lastMessage string
}

// evaluate looks at the application as it is now, or nil when it is gone. done says that there is
// nothing more to wait for.
func (w *waiter) evaluate(app application.Application) (done bool, err error) {
	title := application.Title(w.app)
	if app == nil || app.GetUID() != w.app.GetUID() {
		if w.untilDeleted {
			fmt.Fprintf(w.out, "%s is gone.\n", title)
			return true, nil
		}
		return true, fmt.Errorf("%s was deleted while it was waited for; create it again from its manifest", title)
	}
	v := w.check(app)
	switch {
	case v.reached:
		fmt.Fprintf(w.out, "%s %s\n", title, v.message)
		return true, nil
	case v.unreachable:
		return true, fmt.Errorf("%s %s", title, v.message)
	case v.message != w.lastMessage:
		fmt.Fprintf(w.errOut, "Waiting for %s: %s\n", title, v.message)
		w.lastMessage = v.message
	}
	return false, nil
}

// retryDelay is how long the API server is left alone after it broke off.
const retryDelay = time.Second

// follow looks at the application whenever it changes. A watch that breaks off is begun anew
// with a look at what is there: nothing is missed, and nothing is asked again and again.
func (w *waiter) follow(ctx context.Context, c client.WithWatch) error {
	for {
		done, err := w.listAndWatch(ctx, c)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || meta.IsNoMatchError(err):
			return fmt.Errorf("watch %s: %w", application.Title(w.app), cli.WithHint(err))
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err): // a long silence
		case err != nil && err.Error() != w.lastMessage:
			fmt.Fprintf(w.errOut, "Lost sight of %s, trying again: %v\n", application.Title(w.app), err)
			w.lastMessage = err.Error()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryDelay):
		}
	}
}

// listAndWatch looks and then watches, until that breaks off.
func (w *waiter) listAndWatch(ctx context.Context, c client.WithWatch) (done bool, err error) {
	kind, err := application.KindByAlias(strings.ToLower(application.KindOf(w.app)))
	if err != nil {
		return true, err
	}
	list := kind.NewList()
	filter := []client.ListOption{client.InNamespace(w.app.GetNamespace()), client.MatchingFields{"metadata.name": w.app.GetName()}}
	if err := c.List(ctx, list, filter...); err != nil {
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
	if done, err := w.evaluate(app); done {
		return true, err
	}
	watchOptions := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true}}
	events, err := c.Watch(ctx, list, append(filter, watchOptions)...)
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
			if done, err := w.evaluate(app); done {
				return true, err
			}
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		case watch.Bookmark:
		}
	}
	return false, nil
}
