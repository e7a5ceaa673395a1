package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// source lists and watches objects of one kind.
type source interface {
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// key names an object.
type key = types.NamespacedName

// watcher holds what it was told last and prints what becomes of it.
//
// client-go has two of its kind, and neither fits. RetryWatcher goes on after a lost
// connection, but asks for ever and in silence when the answer to a watch is 410, and gives
// up when the stream says so. Reflector lists anew by itself and feeds a store that cannot
// tell a list from changes; when it was blind is in its log only. What is ours is therefore
// the loop and what it says; listing in pages, decoding and the meaning of errors are
// client-go's.
//
//	begin -> follow <-> again, from the last version
//	            |
//	         expired -> relist -> follow
type watcher struct {
	source    source
	selectors metav1.ListOptions
	// what and server name what is watched, and where, in messages.
	what, server string
	print        printer
	now          func() time.Time
	pause        func(context.Context, time.Duration)
	// until is how many changes are enough; 0 for no end.
	until    int
	existing bool

	held    map[key]*unstructured.Unstructured
	version string // of the last event, bookmark or list
	heard   time.Time
	counts  Counts

	again    bool      // the next connection is not the first one
	relisted bool      // and nothing was heard since
	failures int       // in a row
	lost     time.Time // since when the server is said to be out of reach
}

// Counts is what a watch has seen.
type Counts struct {
	Changes    int `json:"changes"`
	Reconnects int `json:"reconnects"`
	Relists    int `json:"relists"`
}

// errEnough ends a watch that has seen all that was asked for.
var errEnough = errors.New("enough changes")

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	config, err := env.Config()
	if err != nil {
		return err
	}
	patience := config.Timeout
	config.Timeout = 0 // --request-timeout is for answers; a watch is meant to last
	source, mapping, where, err := o.source(env, config)
	if err != nil {
		return err
	}
	if o.lasts > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, o.lasts)
		defer end()
	}
	w := &watcher{
		source: patient{source, patience}, selectors: o.selectors(), server: config.Host,
		what: mapping.GroupVersionKind.Kind + " objects" + where, print: newPrinter(o.output, env.Terminal(out), errOut),
		now: env.Now, pause: pause, until: o.until, existing: o.existing,
	}
	if o.name != "" {
		w.what = mapping.GroupVersionKind.Kind + " " + o.name + where
	}
	// What client-go would log about lost connections is said by us, and better.
	ctx = klog.NewContext(ctx, logr.Discard())
	listed := cli.Progress(errOut, "Listing "+w.what)
	if err := w.run(ctx, listed); err != nil {
		return err
	}
	if o.until > w.counts.Changes && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cli.ErrNotReady
	}
	return nil
}

// run watches until it is told to end. listed is called when it has begun.
func (w *watcher) run(ctx context.Context, listed func()) error {
	err := w.begin(ctx, listed)
	switch {
	case err == nil:
		return w.loop(ctx)
	case ctx.Err() != nil:
		return w.end() // Ctrl-C is no error
	}
	return err
}

// begin lists what there is. Nothing was seen yet, so any failure ends it: a wrong server or
// a missing right is likelier than a bad moment.
func (w *watcher) begin(ctx context.Context, listed func()) error {
	objects, version, err := w.list(ctx)
	listed()
	if err != nil {
		return fmt.Errorf("list %s from %s: %w", w.what, w.server, cli.Explained(err))
	}
	w.held, w.version, w.heard = map[key]*unstructured.Unstructured{}, version, w.now()
	err = w.notice(NoticeStarted, "", fmt.Sprintf("%s: %d now; watching for changes, Ctrl-C ends it", w.what, len(objects)))
	for _, o := range objects {
		w.held[keyOf(o)] = o
		if w.existing && err == nil {
			err = w.print.change(w.changeOf(typeExists, nil, o))
		}
	}
	return err
}

// loop follows the changes until it is told to end.
func (w *watcher) loop(ctx context.Context) error {
	var expired error // set while the objects have to be listed anew
	for {
		var err error
		if expired == nil {
			err = w.follow(ctx)
			w.again = true
		} else if err = w.relist(ctx, expired); err == nil {
			expired = nil
			continue
		}
		var unprintable printError
		switch {
		case errors.As(err, &unprintable):
			return err // nobody reads any more
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return w.end()
		case isExpired(err):
			expired = err
			if !w.relisted {
				continue // at once: nothing is seen until then
			}
		case isImpossible(err):
			return fmt.Errorf("watch %s: %w; this kind can only be read, with kubectl get", w.what, err)
		}
		if err := w.wait(ctx, err); err != nil {
			return err
		}
	}
}

func (w *watcher) end() error {
	c := w.counts
	return w.notice(NoticeEnded, "", fmt.Sprintf("%s: %s, %s, %s", w.what,
		counted(c.Changes, "change"), counted(c.Reconnects, "reconnect"), counted(c.Relists, "re-list")))
}

// list reads all objects in pages, and the version that they are of.
func (w *watcher) list(ctx context.Context) ([]*unstructured.Unstructured, string, error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return w.source.List(ctx, o) })
	list, _, err := pages.List(ctx, w.selectors)
	if err != nil {
		return nil, "", err
	}
	var objects []*unstructured.Unstructured
	err = meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("listed a %T", o)
		}
		objects = append(objects, object)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	return objects, m.GetResourceVersion(), nil
}

// see takes one object as it is now, or was last, and prints what that changes. What is
// known already is no change.
func (w *watcher) see(event watch.EventType, o *unstructured.Unstructured, missed *Missed) error {
	k := keyOf(o)
	old := w.held[k]
	var changes []Change
	switch {
	case event == watch.Deleted && old == nil:
		return nil
	case event == watch.Deleted:
		delete(w.held, k)
		changes = append(changes, w.changeOf(typeDeleted, old, o))
	case old == nil:
		w.held[k] = o
		changes = append(changes, w.changeOf(typeAdded, nil, o))
	case old.GetResourceVersion() == o.GetResourceVersion():
		return nil
	case old.GetUID() != o.GetUID(): // deleted and made anew while nobody looked
		w.held[k] = o
		changes = append(changes, w.changeOf(typeDeleted, old, gone(old)), w.changeOf(typeAdded, nil, o))
	default:
		w.held[k] = o
		changes = append(changes, w.changeOf(typeModified, old, o))
	}
	for _, c := range changes {
		c.Missed = missed
		if err := w.print.change(c); err != nil {
			return err
		}
		if w.counts.Changes++; w.counts.Changes == w.until {
			return errEnough
		}
	}
	return nil
}

// gone is an object whose deletion nobody saw: of which version that was is not known.
func gone(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	return o
}

func keyOf(o *unstructured.Unstructured) key {
	return key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
