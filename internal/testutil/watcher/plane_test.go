package watcher_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

const patience = 30 * time.Second

// One control plane for all of these: each test has its own namespace, and the one that
// crashes the API server brings it back.
func TestWatcher(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	t.Run("unknown resource", func(t *testing.T) { testUnknownResource(t, plane) })
	t.Run("crash", func(t *testing.T) { testCrash(t, plane) })
	t.Run("blind", func(t *testing.T) { testBlind(t, plane) })
}

func testUnknownResource(t *testing.T, plane *controlplane.Plane) {
	nonsense := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "unicorns"}
	_, err := watcher.Start(t.Context(), plane.Config, configMaps, nonsense)
	if err == nil || !strings.Contains(err.Error(), "start watcher: list unicorns.example.com: ") {
		t.Errorf("got %v, want an error that names the resource", err)
	}
}

// The API server is killed and comes back; from the first sign of life on, every single
// change is told again.
func testCrash(t *testing.T, plane *controlplane.Plane) {
	s := begin(t, plane, plane.Config)
	s.create("before")
	s.waitFor("before", func(state watcher.State) bool { return state.Get(configMaps, s.ns+"/before") != nil })

	s.restartAPIServer(plane)
	s.create("sign-of-life")
	s.waitFor("a sign of life", func(state watcher.State) bool { return state.Get(configMaps, s.ns+"/sign-of-life") != nil })
	s.create("after")
	s.change("before")
	s.delete("before")
	s.waitFor("the end", func(state watcher.State) bool {
		return state.Get(configMaps, s.ns+"/after") != nil && state.Get(configMaps, s.ns+"/before") == nil
	})
	want := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}
	if diff := cmp.Diff(want, s.typesOf("before")); diff != "" {
		t.Error(diff)
	}
	if s.w.History(configMaps, s.ns+"/after")[0].Listed {
		t.Error("what happened after the crash was found in a list, want it told by the watch")
	}
}

// While the watcher cannot reach the API server, objects come and go; the restart makes
// sure that the watch cannot be resumed (410). The difference is recorded.
func testBlind(t *testing.T, plane *controlplane.Plane) {
	wire := &wire{}
	cfg := rest.CopyConfig(plane.Config)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { wire.RoundTripper = rt; return wire })
	s := begin(t, plane, cfg)
	for _, name := range []string{"changed", "gone", "same"} {
		s.create(name)
	}
	s.waitFor("three", func(state watcher.State) bool { return s.count(state) == 3 })

	wire.cut()
	s.change("changed")
	s.delete("gone")
	s.create("born")
	s.create("unseen")
	s.delete("unseen")
	s.restartAPIServer(plane)
	wire.mend()
	s.waitFor("born", func(state watcher.State) bool { return state.Get(configMaps, s.ns+"/born") != nil })

	got := map[string][]watch.EventType{}
	for _, name := range []string{"born", "changed", "gone", "same", "unseen"} {
		got[name] = s.typesOf(name)
	}
	want := map[string][]watch.EventType{
		"born": {watch.Added}, "changed": {watch.Added, watch.Modified}, "gone": {watch.Added, watch.Deleted},
		"same": {watch.Added}, "unseen": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !s.w.History(configMaps, s.ns+"/gone")[1].Listed {
		t.Error("the event of an unseen deletion does not say that it was found in a list")
	}
	s.change("born")
	s.waitFor("a change told by the new watch", func(state watcher.State) bool {
		_, ok := state.First(configMaps, s.ns+"/born", func(e watcher.Event) bool { return e.Type == watch.Modified && !e.Listed })
		return ok
	})
}

// story is a namespace, somebody who changes things in it, and a watcher.
type story struct {
	*testing.T
	ns     string
	client typedcorev1.ConfigMapInterface
	w      *watcher.Watcher
}

func begin(t *testing.T, plane *controlplane.Plane, eyes *rest.Config) *story {
	t.Helper()
	ns := testutil.Namespace(t, plane.Config)
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	w, err := watcher.Start(t.Context(), eyes, configMaps, secrets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &story{T: t, ns: ns, client: client.CoreV1().ConfigMaps(ns), w: w}
}

func (s *story) create(name string) {
	s.Helper()
	_, err := s.client.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.check(err)
}

func (s *story) change(name string) {
	s.Helper()
	_, err := s.client.Patch(s.Context(), name, types.MergePatchType, []byte(`{"data":{"changed":"yes"}}`), metav1.PatchOptions{})
	s.check(err)
}

func (s *story) delete(name string) {
	s.Helper()
	s.check(s.client.Delete(s.Context(), name, metav1.DeleteOptions{}))
}

func (s *story) restartAPIServer(plane *controlplane.Plane) {
	s.Helper()
	s.check(plane.APIServer.Kill())
	s.check(plane.APIServer.Start())
	s.check(plane.WaitReady(s.Context()))
}

func (s *story) waitFor(what string, holds func(watcher.State) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.check(s.w.WaitFor(ctx, what, holds))
}

func (s *story) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) count(state watcher.State) int {
	n := 0
	for _, o := range state.Live(configMaps) {
		if o.GetNamespace() == s.ns {
			n++
		}
	}
	return n
}

func (s *story) typesOf(name string) []watch.EventType {
	var types []watch.EventType
	for _, e := range s.w.History(configMaps, s.ns+"/"+name) {
		types = append(types, e.Type)
	}
	return types
}

// wire is a connection that can be cut: requests under way end, new ones fail.
type wire struct {
	http.RoundTripper
	mu      sync.Mutex
	broken  bool
	cancels []context.CancelFunc
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	if w.broken {
		w.mu.Unlock()
		return nil, errors.New("the wire is cut")
	}
	ctx, cancel := context.WithCancel(r.Context())
	w.cancels = append(w.cancels, cancel)
	w.mu.Unlock()
	return w.RoundTripper.RoundTrip(r.WithContext(ctx))
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
	for _, cancel := range w.cancels {
		cancel()
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = false
}
