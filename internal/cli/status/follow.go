package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
)

const (
	// settle lets changes that belong together arrive together.
	settle = 300 * time.Millisecond
	// reconnect is how long to wait before a watch that ended is begun anew.
	reconnect = 2 * time.Second
	// recheck is how often to look although nothing was heard: nodes and events are not
	// watched.
	recheck = 15 * time.Second
)

// follow prints the status whenever it changes.
func (o *options) follow(ctx context.Context, env *cli.Env, args []string, out, errOut io.Writer) error {
	config, err := env.Config()
	if err != nil {
		return err
	}
	c, err := cli.NewWatchClient(config)
	if err != nil {
		return err
	}
	app, err := env.Find(ctx, c, args)
	if err != nil {
		return err
	}
	heard := make(chan struct{}, 1)
	kind, err := application.KindCalled(application.KindOf(app))
	if err != nil {
		return err
	}
	go listen(ctx, c, kind.NewList(), errOut, heard, client.InNamespace(app.GetNamespace()), client.MatchingFields{"metadata.name": app.GetName()})
	go listen(ctx, c, &corev1.PodList{}, errOut, heard, client.InNamespace(app.GetNamespace()),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: app.GetName()})
	last := ""
	for {
		l, err := o.look(ctx, env, c, kind, client.ObjectKeyFromObject(app))
		if apierrors.IsNotFound(err) {
			fmt.Fprintf(out, "%s is gone\n", application.Title(app))
			return nil
		}
		if err == nil {
			last, err = o.changed(env, l, last, out)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(errOut, "cannot look now, what is shown may be old: %v\n", err)
		}
		wait := recheck
		if until := l.Again.Sub(env.Now()); !l.Again.IsZero() && until < wait {
			wait = max(until, settle)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-heard:
			time.Sleep(settle)
		case <-time.After(wait):
		}
	}
}

func (o *options) look(ctx context.Context, env *cli.Env, c client.Client, kind application.Kind, key client.ObjectKey) (look.Look, error) {
	app := kind.New()
	if err := c.Get(ctx, key, app); err != nil {
		return look.Look{}, err
	}
	return look.At(ctx, c, app, false, env.Now())
}

// changed prints a look that differs from the last one. Ages differ always: they are left
// out of the comparison.
func (o *options) changed(env *cli.Env, l look.Look, last string, out io.Writer) (string, error) {
	still := *env
	still.Now = func() time.Time { return l.Since }
	var now bytes.Buffer
	if err := o.show(&still, l, &now); err != nil || now.String() == last {
		return last, err
	}
	if last != "" && !o.Machine() {
		fmt.Fprintf(out, "\n--- %s\n", env.Now().Format(time.TimeOnly))
	}
	return now.String(), o.show(env, l, out)
}

// listen tells whenever something changes. A watch that ends is begun anew: what happened
// meanwhile is seen by the look that follows.
func listen(ctx context.Context, c client.WithWatch, list client.ObjectList, errOut io.Writer, heard chan<- struct{}, opts ...client.ListOption) {
	tell := func() {
		select {
		case heard <- struct{}{}:
		default: // somebody is about to look anyway
		}
	}
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, list, opts...)
		if err != nil {
			fmt.Fprintf(errOut, "cannot watch now, looking every %s instead: %v\n", recheck, err)
			select {
			case <-ctx.Done():
			case <-time.After(recheck):
			}
			continue
		}
		for e := range w.ResultChan() {
			if e.Type != watch.Bookmark {
				tell()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
			tell()
		}
	}
}
