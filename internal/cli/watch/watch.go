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
	source      source
	listOptions metav1.ListOptions
	// description and server name what is watched, and where, in messages.
	description, server string
	printer             printer
	now                 func() time.Time
	sleep               func(context.Context, time.Duration)
	// maxChanges is how many changes are enough; 0 for no end.
	maxChanges    int
	printExisting bool

	objects       map[key]*unstructured.Unstructured
	version       string // of the last event, bookmark or list
	lastEventTime time.Time
	counts        Counts

	reconnecting      bool      // the next connection is not the first one
	relisted          bool      // and nothing was heard since
	failures          int       // in a row
	disconnectedSince time.Time // since when the server is said to be out of reach
}

// Counts is what a watch has seen.
type Counts struct {
	Changes    int `json:"changes"`
	Reconnects int `json:"reconnects"`
	Relists    int `json:"relists"`
}

// errMaxChanges ends a watch that has seen all that was asked for.
var errMaxChanges = errors.New("enough changes")

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	config, err := env.Config()
	if err != nil {
		return err
	}
	listTimeout := config.Timeout
	config.Timeout = 0 // --request-timeout is for answers; a watch is meant to last
	source, mapping, scope, err := o.newSource(env, config)
	if err != nil {
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	w := &watcher{
		source: listTimeoutSource{source, listTimeout}, listOptions: o.listOptions(), server: config.Host,
		description: mapping.GroupVersionKind.Kind + " objects" + scope, printer: newPrinter(o.output, env.Terminal(out), errOut),
		now: env.Now, sleep: sleep, maxChanges: o.maxChanges, printExisting: o.printExisting,
	}
	if o.name != "" {
		w.description = mapping.GroupVersionKind.Kind + " " + o.name + scope
	}
	// What client-go would log about lost connections is said by us, and better.
	ctx = klog.NewContext(ctx, logr.Discard())
	onListed := cli.Progress(errOut, "Listing "+w.description)
	if err := w.run(ctx, onListed); err != nil {
		return err
	}
	if o.maxChanges > w.counts.Changes && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cli.ErrNotReady
	}
	return nil
}

// run watches until it is told to end. listed is called when it has begun.
func (w *watcher) run(ctx context.Context, onListed func()) error {
	err := w.listInitial(ctx, onListed)
	switch {
	case err == nil:
		return w.loop(ctx)
	case ctx.Err() != nil:
		return w.reportEnd() // Ctrl-C is no error
	}
	return err
}

// listInitial lists what there is. Nothing was seen yet, so any failure ends it: a wrong server or
// a missing right is likelier than a bad moment.
func (w *watcher) listInitial(ctx context.Context, onListed func()) error {
	objects, version, err := w.list(ctx)
	onListed()
	if err != nil {
		return fmt.Errorf("list %s from %s: %w", w.description, w.server, cli.WithHint(err))
	}
	w.objects, w.version, w.lastEventTime = map[key]*unstructured.Unstructured{}, version, w.now()
	err = w.printNotice(NoticeStarted, "", fmt.Sprintf("%s: %d now; watching for changes, Ctrl-C ends it", w.description, len(objects)))
	for _, o := range objects {
		w.objects[keyOf(o)] = o
		if w.printExisting && err == nil {
			err = w.printer.printChange(w.newChange(typeExists, nil, o))
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
			w.reconnecting = true
		} else if err = w.relist(ctx, expired); err == nil {
			expired = nil
			continue
		}
		var printErr printError
		switch {
		case errors.As(err, &printErr):
			return err // nobody reads any more
		case errors.Is(err, errMaxChanges), ctx.Err() != nil:
			return w.reportEnd()
		case isExpired(err):
			expired = err
			if !w.relisted {
				continue // at once: nothing is seen until then
			}
		case isWatchUnsupported(err):
			return fmt.Errorf("watch %s: %w; this kind can only be read, with kubectl get", w.description, err)
		}
		if err := w.backOff(ctx, err); err != nil {
			return err
		}
	}
}

func (w *watcher) reportEnd() error {
	c := w.counts
	return w.printNotice(NoticeEnded, "", fmt.Sprintf("%s: %s, %s, %s", w.description,
		pluralize(c.Changes, "change"), pluralize(c.Reconnects, "reconnect"), pluralize(c.Relists, "re-list")))
}

// list reads all objects in pages, and the version that they are of.
func (w *watcher) list(ctx context.Context) ([]*unstructured.Unstructured, string, error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return w.source.List(ctx, o) })
	list, _, err := pages.List(ctx, w.listOptions)
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

// observe takes one object as it is now, or was last, and prints what that changes. What is
// known already is no change.
func (w *watcher) observe(event watch.EventType, o *unstructured.Unstructured, gap *Gap) error {
	k := keyOf(o)
	old := w.objects[k]
	var changes []Change
	switch {
	case event == watch.Deleted && old == nil:
		return nil
	case event == watch.Deleted:
		delete(w.objects, k)
		changes = append(changes, w.newChange(typeDeleted, old, o))
	case old == nil:
		w.objects[k] = o
		changes = append(changes, w.newChange(typeAdded, nil, o))
	case old.GetResourceVersion() == o.GetResourceVersion():
		return nil
	case old.GetUID() != o.GetUID(): // deleted and made anew while nobody looked
		w.objects[k] = o
		changes = append(changes, w.newChange(typeDeleted, old, withoutVersion(old)), w.newChange(typeAdded, nil, o))
	default:
		w.objects[k] = o
		changes = append(changes, w.newChange(typeModified, old, o))
	}
	for _, c := range changes {
		c.Gap = gap
		if err := w.printer.printChange(c); err != nil {
			return err
		}
		if w.counts.Changes++; w.counts.Changes == w.maxChanges {
			return errMaxChanges
		}
	}
	return nil
}

// withoutVersion is an object whose deletion nobody saw: of which version that was is not known.
func withoutVersion(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	return o
}

func keyOf(o *unstructured.Unstructured) key {
	return key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
