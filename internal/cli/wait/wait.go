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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
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
		fmt.Fprintf(out, "%s not found in namespace %s.\n", strings.Join(args, " "), notFound.Namespace)
		return nil
	}
	if err != nil {
		return err
	}
	w := &waiter{app: app, check: check, untilDeleted: untilDeleted, out: out, errOut: errOut}
	if o.timeout <= 0 {
		w.errOut = io.Discard
	}
	// Evaluates the application before the timeout starts, so that a timeout always has a reason.
	if done, err := w.evaluate(app); done {
		return err
	}
	if o.timeout <= 0 {
		fmt.Fprintf(errOut, "%s is not %s: %s\n", appkind.Title(app), o.condition, w.lastMessage)
		return cli.ErrNotReady
	}
	waitCtx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err = w.follow(waitCtx, c)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted while waiting for %s: %s", appkind.Title(app), w.lastMessage)
	case waitCtx.Err() != nil:
		fmt.Fprintf(errOut, "%s is not %s after %s: %s\n", appkind.Title(app), strings.Replace(o.condition, "revision=", "at revision ", 1), o.timeout, w.lastMessage)
		return cli.ErrNotReady
	}
	return err
}

// waiter waits for one application.
type waiter struct {
	app          appkind.Application
	check        condition
	untilDeleted bool
	out, errOut  io.Writer
	// lastMessage is the last printed message.
	lastMessage string
}

// evaluate checks the condition against the application, which is nil if it was deleted. It returns
// done if the wait is over.
func (w *waiter) evaluate(app appkind.Application) (done bool, err error) {
	title := appkind.Title(w.app)
	if app == nil || app.GetUID() != w.app.GetUID() {
		if w.untilDeleted {
			fmt.Fprintf(w.out, "%s was deleted.\n", title)
			return true, nil
		}
		return true, fmt.Errorf("%s was deleted during the wait; create it again from its manifest", title)
	}
	v := w.check(app)
	switch {
	case v.reached:
		fmt.Fprintf(w.out, "%s %s\n", title, v.message)
		return true, nil
	case v.unreachable:
		return true, fmt.Errorf("%s %s", title, v.message)
	case v.message != w.lastMessage:
		fmt.Fprintf(w.errOut, "%s: %s\n", title, v.message)
		w.lastMessage = v.message
	}
	return false, nil
}

// retryDelay is the delay before a watch that ended is restarted.
const retryDelay = time.Second

// follow evaluates the application after each change. If the watch ends, it lists and watches again, so
// that no change is missed.
func (w *waiter) follow(ctx context.Context, c client.WithWatch) error {
	for {
		done, err := w.listAndWatch(ctx, c)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || meta.IsNoMatchError(err):
			return fmt.Errorf("watch %s: %w", appkind.Title(w.app), cli.WithHint(err))
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err): // expected after a long time without events
		case err != nil && err.Error() != w.lastMessage:
			fmt.Fprintf(w.errOut, "Watch of %s failed, retrying: %v\n", appkind.Title(w.app), err)
			w.lastMessage = err.Error()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryDelay):
		}
	}
}

// listAndWatch lists the application and watches it until the watch ends.
func (w *waiter) listAndWatch(ctx context.Context, c client.WithWatch) (done bool, err error) {
	kind := appkind.Of(w.app)
	list := kind.NewList()
	filter := []client.ListOption{client.InNamespace(w.app.GetNamespace()), client.MatchingFields{"metadata.name": w.app.GetName()}}
	if err := c.List(ctx, list, filter...); err != nil {
		return false, err
	}
	var app appkind.Application
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		app, _ = kind.Application(obj)
		return nil
	})
	if err != nil {
		return true, err
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
			app, _ := kind.Application(event.Object)
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
