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

// key identifies an object.
type key = types.NamespacedName

// watcher stores the last state of the objects and prints their changes.
//
// The watchers of client-go do not report gaps. RetryWatcher resumes after a lost connection, but
// retries forever without a message if a watch request returns 410, and stops if the stream does.
// Reflector re-lists automatically, but its store cannot distinguish a list from changes, and it only
// logs gaps. Therefore the loop is implemented here; paging, decoding and error types are client-go's.
//
//	list -> follow <-> reconnect at the last version
//	            |
//	         expired -> relist -> follow
type watcher struct {
	source      source
	listOptions metav1.ListOptions
	// description and server name the objects and the API server in messages.
	description, server string
	printer             printer
	now                 func() time.Time
	sleep               func(context.Context, time.Duration)
	// maxChanges is the number of changes after which the watch ends. 0: no limit.
	maxChanges    int
	printExisting bool

	objects       map[key]*unstructured.Unstructured
	version       string // of the last event, bookmark or list
	lastEventTime time.Time
	counts        Counts

	reconnecting      bool      // the next connection is a reconnect
	relisted          bool      // no event was received since the last re-list
	failures          int       // in a row
	disconnectedSince time.Time // set after a disconnect was reported
}

// Counts has the statistics of a watch.
type Counts struct {
	Changes    int `json:"changes"`
	Reconnects int `json:"reconnects"`
	Relists    int `json:"relists"`
}

// errMaxChanges ends the watch after maxChanges.
var errMaxChanges = errors.New("maximum number of changes reached")

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	config, err := env.Config()
	if err != nil {
		return err
	}
	listTimeout := config.Timeout
	config.Timeout = 0 // --request-timeout does not apply to watches
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
	// Discards the log of client-go about lost connections: the notices report them.
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

// run watches until the context is canceled. It calls onListed after the initial list.
func (w *watcher) run(ctx context.Context, onListed func()) error {
	err := w.listInitial(ctx, onListed)
	switch {
	case err == nil:
		return w.loop(ctx)
	case ctx.Err() != nil:
		return w.reportEnd() // Ctrl-C is not an error
	}
	return err
}

// listInitial lists the existing objects. It does not retry, because the first error is usually a wrong
// server or missing permission.
func (w *watcher) listInitial(ctx context.Context, onListed func()) error {
	objects, version, err := w.list(ctx)
	onListed()
	if err != nil {
		return fmt.Errorf("list %s from %s: %w", w.description, w.server, cli.WithHint(err))
	}
	w.objects, w.version, w.lastEventTime = map[key]*unstructured.Unstructured{}, version, w.now()
	err = w.printNotice(NoticeStarted, "", fmt.Sprintf("%s: %d now; watching for changes, press Ctrl-C to stop", w.description, len(objects)))
	for _, o := range objects {
		w.objects[keyOf(o)] = o
		if w.printExisting && err == nil {
			err = w.printer.printChange(w.newChange(typeExists, nil, o))
		}
	}
	return err
}

// loop follows changes until the context is canceled.
func (w *watcher) loop(ctx context.Context) error {
	var expired error // set while a re-list is required
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
			return err // the output is closed
		case errors.Is(err, errMaxChanges), ctx.Err() != nil:
			return w.reportEnd()
		case isExpired(err):
			expired = err
			if !w.relisted {
				continue // without a delay: no events arrive until the re-list
			}
		case isWatchUnsupported(err):
			return fmt.Errorf("watch %s: %w; this kind does not support watch, use kubectl get", w.description, err)
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

// list returns all objects, read in pages, and the resourceVersion of the list.
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
			return fmt.Errorf("unexpected list item of type %T", o)
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

// observe compares the state of an object with the stored state, prints the change and stores the state.
// It ignores states that are already stored.
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
	case old.GetUID() != o.GetUID(): // recreated during a gap
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

// withoutVersion returns a copy without resourceVersion, for deletions with an unknown version.
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
