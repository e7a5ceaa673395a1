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
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

const (
	// debounceDelay groups changes that happen together.
	debounceDelay = 300 * time.Millisecond
	// reconnectDelay is the delay before a watch that ended is restarted.
	reconnectDelay = 2 * time.Second
	// resyncInterval is the interval of reads without watch events: nodes and events are not watched.
	resyncInterval = 15 * time.Second
)

// watchStatus prints the status after each change.
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
	kind := appkind.Of(app)
	go notifyOnChange(ctx, c, kind.NewList(), errOut, changes, client.InNamespace(app.GetNamespace()), client.MatchingFields{"metadata.name": app.GetName()})
	go notifyOnChange(ctx, c, &corev1.PodList{}, errOut, changes, client.InNamespace(app.GetNamespace()),
		client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy, appsapi.LabelInstance: app.GetName()})
	lastOutput := ""
	for {
		l, err := o.collect(ctx, env, c, kind, client.ObjectKeyFromObject(app))
		if apierrors.IsNotFound(err) {
			fmt.Fprintf(out, "%s was deleted\n", appkind.Title(app))
			return nil
		}
		if err == nil {
			lastOutput, err = o.printIfChanged(env, l, lastOutput, out)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(errOut, "cannot read the current state; the status above can be outdated: %v\n", err)
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

func (o *options) collect(ctx context.Context, env *cli.Env, c client.Client, kind *appkind.Kind, key client.ObjectKey) (collect.Result, error) {
	app := kind.New()
	if err := c.Get(ctx, key, app); err != nil {
		return collect.Result{}, err
	}
	return collect.Application(ctx, c, app, false, env.Now())
}

// printIfChanged prints a result that differs from the last one. The comparison ignores ages.
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

// notifyOnChange sends to changes after each watch event. It restarts a watch that ends; the read that
// follows finds changes in between.
func notifyOnChange(ctx context.Context, c client.WithWatch, list client.ObjectList, errOut io.Writer, changes chan<- struct{}, opts ...client.ListOption) {
	notify := func() {
		select {
		case changes <- struct{}{}:
		default: // a read is already pending
		}
	}
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, list, opts...)
		if err != nil {
			fmt.Fprintf(errOut, "cannot watch, polling every %s instead: %v\n", resyncInterval, err)
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
