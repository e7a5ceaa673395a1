package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // text output uses the local time zone
	os.Exit(m.Run())
}

// scriptedSource is a source with scripted responses. Each request advances the clock.
type scriptedSource struct {
	t     *testing.T
	lists []response
	// watches are the responses in this order. After the last one the watch is canceled.
	watches []response
	cancel  context.CancelFunc
	now     time.Time
	// requestedVersions are the versions of the watch requests.
	requestedVersions []string
}

// response is the response to a list or watch request.
type response struct {
	err     error
	version string
	objects []*unstructured.Unstructured
	events  []watch.Event
}

func (p *scriptedSource) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	p.now = p.now.Add(time.Second)
	if len(p.lists) == 0 {
		p.cancel()
		return nil, context.Canceled
	}
	a := p.lists[0]
	p.lists = p.lists[1:]
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(a.version)
	for _, o := range a.objects {
		list.Items = append(list.Items, *o)
	}
	return list, a.err
}

func (p *scriptedSource) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	p.now = p.now.Add(10 * time.Second)
	p.requestedVersions = append(p.requestedVersions, o.ResourceVersion)
	if !o.AllowWatchBookmarks {
		p.t.Error("watch request without bookmarks")
	}
	if len(p.watches) == 0 {
		p.cancel()
		return nil, context.Canceled
	}
	a := p.watches[0]
	p.watches = p.watches[1:]
	events := make(chan watch.Event, len(a.events))
	for _, e := range a.events {
		events <- e
	}
	close(events)
	return watch.NewProxyWatcher(events), a.err
}

// run runs the watcher against the script.
func (p *scriptedSource) run(w *watcher, out cli.Terminal, errOut *bytes.Buffer, format string) error {
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	p.cancel, p.now = cancel, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.source, w.now = p, func() time.Time { return p.now }
	w.description, w.server = "ConfigMap objects of namespace shop", "https://api.example.com:6443"
	w.printer = newPrinter(cli.Output{Format: format}, out, errOut)
	w.sleep = func(context.Context, time.Duration) { p.now = p.now.Add(time.Second) }
	return w.run(ctx, func() {})
}

func object(name, uid string, version int, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"value": value},
		"metadata": map[string]any{
			"namespace": "shop", "name": name, "uid": uid, "resourceVersion": fmt.Sprint(version),
			"managedFields": []any{map[string]any{"manager": "kubectl-edit", "operation": "Update", "time": time.Unix(int64(version), 0).UTC().Format(time.RFC3339)}},
		},
	}}
	return o
}

func expiredError() *apierrors.StatusError {
	return apierrors.NewResourceExpired("too old resource version: 30 (40)")
}

// fullScript covers all situations of a watch.
func fullScript(t *testing.T) *scriptedSource {
	expiredStatus := expiredError().Status()
	a, b := object("a", "u1", 9, "1"), object("b", "u2", 11, "1")
	edited := object("b", "u2", 12, "a longer text, of which only the end has changed: 1")
	editedAgain := object("b", "u2", 21, "a longer text, of which only the end has changed: 2")
	bookmark := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "20"}}}
	return &scriptedSource{
		t: t,
		lists: []response{
			{version: "10", objects: []*unstructured.Unstructured{a}},
			{version: "30", objects: []*unstructured.Unstructured{object("b", "u2", 25, "3"), object("c", "u3", 26, "1")}},
			{err: errors.New("dial tcp: connection refused")},
			{version: "40", objects: []*unstructured.Unstructured{object("b", "u4", 35, "3"), object("c", "u3", 26, "1")}},
		},
		watches: []response{
			{events: []watch.Event{{Type: watch.Added, Object: b}, {Type: watch.Modified, Object: edited}}},
			{events: []watch.Event{{Type: watch.Modified, Object: edited}, {Type: watch.Bookmark, Object: bookmark}}}, // duplicate event
			{events: []watch.Event{{Type: watch.Modified, Object: editedAgain}}},
			{},
			{err: errors.New("dial tcp: connection refused")},
			{events: []watch.Event{{Type: watch.Modified, Object: object("b", "u2", 22, "2")}}},
			{err: expiredError()},
			{events: []watch.Event{{Type: watch.Error, Object: &expiredStatus}}},
			{events: []watch.Event{{Type: watch.Deleted, Object: object("b", "u4", 41, "3")}, {Type: watch.Deleted, Object: object("b", "u4", 41, "3")}}},
		},
	}
}

// backoffPattern matches random delays.
var backoffPattern = regexp.MustCompile(`retrying in [^,]*,`)

func TestWatchOutput(t *testing.T) {
	cases := map[string]struct {
		format string
		width  int
	}{
		"story.txt": {format: cli.FormatTable}, "narrow.txt": {format: cli.FormatTable, width: 60}, "story.jsonl": {format: cli.FormatJSON},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := fullScript(t)
			// Both outputs go to one buffer, as on a terminal.
			if err := p.run(&watcher{printExisting: true}, cli.Terminal{Writer: &out, Width: tc.width}, &out, tc.format); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, backoffPattern.ReplaceAllString(out.String(), "retrying in SOON,"))
			if want := []string{"10", "12", "20", "21", "21", "21", "22", "30", "40", "41"}; !slices.Equal(p.requestedVersions, want) {
				t.Errorf("watched from %q, want %q", p.requestedVersions, want)
			}
		})
	}
}

func TestEndsAfterMaxChanges(t *testing.T) {
	var out, errOut bytes.Buffer
	w := &watcher{maxChanges: 2}
	if err := fullScript(t).run(w, cli.Terminal{Writer: &out}, &errOut, cli.FormatTable); err != nil {
		t.Fatal(err)
	}
	if want := "ConfigMap objects of namespace shop: 2 changes, 0 reconnects, 0 re-lists\n"; !strings.HasSuffix(errOut.String(), want) {
		t.Errorf("got %q, want %q", errOut.String(), want)
	}
}

// Ctrl-C during the first list is no error and prints one notice.
func TestCanceledDuringFirstList(t *testing.T) {
	var out bytes.Buffer
	if err := (&scriptedSource{t: t}).run(&watcher{}, cli.Terminal{Writer: &out}, &out, cli.FormatTable); err != nil {
		t.Error(err)
	}
	if want := "ConfigMap objects of namespace shop: 0 changes, 0 reconnects, 0 re-lists\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// Repeated failures increase the delay up to a limit.
func TestBackoffGrowsAndIsBounded(t *testing.T) {
	expiredErr := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonGone, Message: "gone"}}
	cases := map[string]struct {
		response
		wantDelays int
	}{
		"connection refused": {response{err: errors.New("dial tcp: connection refused")}, 11},
		"closed immediately": {response{}, 11},
		// The first re-list has no delay.
		"expired immediately": {response{err: expiredErr}, 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &scriptedSource{t: t, watches: slices.Repeat([]response{tc.response}, 12), lists: slices.Repeat([]response{{version: "10"}}, 13)}
			var delays []time.Duration
			var out bytes.Buffer
			w := &watcher{}
			ctx, cancel := context.WithCancel(t.Context())
			p.cancel = cancel
			w.source, w.now, w.printer = p, time.Now, newPrinter(cli.Output{}, cli.Terminal{Writer: &out}, &out)
			w.sleep = func(_ context.Context, d time.Duration) { delays = append(delays, d) }
			if err := w.run(ctx, func() {}); err != nil {
				t.Fatal(err)
			}
			if last := len(delays) - 1; last != tc.wantDelays-1 || delays[0] > time.Second || delays[last] < 5*time.Second || delays[last] > 7*time.Second || !slices.IsSorted(delays[:5]) {
				t.Errorf("delays are %v, want %d increasing delays of at most some seconds", delays, tc.wantDelays)
			}
		})
	}
}

func TestFatalErrors(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	forbidden := apierrors.NewForbidden(resource, "", errors.New("no"))
	cases := map[string]struct {
		source scriptedSource
		want   string
	}{
		"no permission to list": {
			source: scriptedSource{lists: []response{{err: forbidden}}},
			want:   `list ConfigMap objects of namespace shop from https://api.example.com:6443: configmaps is forbidden: no; request the permission, or use another user with --as or --context`,
		},
		"kind does not support watch": {
			source: scriptedSource{lists: []response{{version: "1"}}, watches: []response{{err: apierrors.NewMethodNotSupported(resource, "watch")}}},
			want:   `watch ConfigMap objects of namespace shop: watch is not supported on resources of kind "configmaps"; this kind does not support watch, use kubectl get`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tc.source.t = t
			err := tc.source.run(&watcher{}, cli.Terminal{Writer: &out}, &out, cli.FormatTable)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// The watch stops when the reader closes the pipe: kubectl holdfast watch pods | head -1.
func TestStopsWhenOutputIsClosed(t *testing.T) {
	for _, format := range []string{cli.FormatTable, cli.FormatJSON} {
		err := fullScript(t).run(&watcher{}, cli.Terminal{Writer: closedWriter{}}, &bytes.Buffer{}, format)
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("-o %s: got %v, want os.ErrClosed", format, err)
		}
	}
}

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }
