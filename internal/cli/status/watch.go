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
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

const (
	// debounceDelay lets changes that belong together arrive together.
	debounceDelay = 300 * time.Millisecond
	// reconnectDelay is how long to wait before a watch that ended is begun anew.
	reconnectDelay = 2 * time.Second
	// resyncInterval is how often to look although nothing was heard: nodes and events are not
	// watched.
	resyncInterval = 15 * time.Second
)

// watchStatus prints the status whenever it changes.
func (o *options) watchStatus(ctx context.Context, env *cli.Env, args []string, out, errOut io.Writer) error {
	config, err := env.Config()
	if err != nil {
		return err
	}
	c, err := cli.NewWatchClient(config)
	if err != nil {
		return err
	}
	app, err := env.FindApplication(ctx, c, args)
	if err != nil {
		return err
	}
	changes := make(chan struct{}, 1)
	kind, err := application.KindByAlias(application.KindOf(app))
	if err != nil {
		return err
	}
	go notifyOnChange(ctx, c, kind.NewList(), errOut, changes, client.InNamespace(app.GetNamespace()), client.MatchingFields{"metadata.name": app.GetName()})
	go notifyOnChange(ctx, c, &corev1.PodList{}, errOut, changes, client.InNamespace(app.GetNamespace()),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: app.GetName()})
	lastOutput := ""
	for {
		l, err := o.collect(ctx, env, c, kind, client.ObjectKeyFromObject(app))
		if apierrors.IsNotFound(err) {
			fmt.Fprintf(out, "%s is gone\n", application.Title(app))
			return nil
		}
		if err == nil {
			lastOutput, err = o.printIfChanged(env, l, lastOutput, out)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(errOut, "cannot look now, what is shown may be old: %v\n", err)
		}
		wait := resyncInterval
		if untilNext := l.RecheckAt.Sub(env.Now()); !l.RecheckAt.IsZero() && untilNext < wait {
			wait = max(untilNext, debounceDelay)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
			time.Sleep(debounceDelay)
		case <-time.After(wait):
		}
	}
}

func (o *options) collect(ctx context.Context, env *cli.Env, c client.Client, kind application.Kind, key client.ObjectKey) (collect.Result, error) {
	app := kind.New()
	if err := c.Get(ctx, key, app); err != nil {
		return collect.Result{}, err
	}
	return collect.Application(ctx, c, app, false, env.Now())
}

// printIfChanged prints a look that differs from the last one. Ages differ always: they are left
// out of the comparison.
func (o *options) printIfChanged(env *cli.Env, l collect.Result, last string, out io.Writer) (string, error) {
	frozenEnv := *env
	frozenEnv.Now = func() time.Time { return l.Since }
	var rendered bytes.Buffer
	if err := o.print(&frozenEnv, l, &rendered); err != nil || rendered.String() == last {
		return last, err
	}
	if last != "" && !o.IsMachineReadable() {
		fmt.Fprintf(out, "\n--- %s\n", env.Now().Format(time.TimeOnly))
	}
	return rendered.String(), o.print(env, l, out)
}

// notifyOnChange tells whenever something changes. A watch that ends is begun anew: what happened
// meanwhile is seen by the look that follows.
func notifyOnChange(ctx context.Context, c client.WithWatch, list client.ObjectList, errOut io.Writer, changes chan<- struct{}, opts ...client.ListOption) {
	notify := func() {
		select {
		case changes <- struct{}{}:
		default: // somebody is about to look anyway
		}
	}
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, list, opts...)
		if err != nil {
			fmt.Fprintf(errOut, "cannot watch now, looking every %s instead: %v\n", resyncInterval, err)
			select {
			case <-ctx.Done():
			case <-time.After(resyncInterval):
			}
			continue
		}
		for e := range w.ResultChan() {
			if e.Type != watch.Bookmark {
				notify()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnectDelay):
			notify()
		}
	}
}
