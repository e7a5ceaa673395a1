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

const waitTimeout = 30 * time.Second

// One control plane for all of these: each test has its own namespace, and the test that crashes the API server restarts
// it.
func TestWatcher(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	t.Run("unknown resource", func(t *testing.T) { testUnknownResource(t, plane) })
	t.Run("crash", func(t *testing.T) { testAPIServerCrash(t, plane) })
	t.Run("blind", func(t *testing.T) { testEventsMissed(t, plane) })
}

func testUnknownResource(t *testing.T, plane *controlplane.Plane) {
	unknown := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "unicorns"}
	_, err := watcher.Start(t.Context(), plane.Config, configMaps, unknown)
	if err == nil || !strings.Contains(err.Error(), "start watcher: list unicorns.example.com: ") {
		t.Errorf("got %v, want an error that names the resource", err)
	}
}

// The API server is killed and restarted; after the first observed event, every change must be reported by the watch.
func testAPIServerCrash(t *testing.T, plane *controlplane.Plane) {
	s := newFixture(t, plane, plane.Config)
	s.create("before")
	s.waitFor("before", func(state watcher.State) bool { return state.Get(configMaps, s.ns+"/before") != nil })

	s.restartAPIServer(plane)
	s.create("sign-of-life")
	s.waitFor("the first event", func(state watcher.State) bool { return state.Get(configMaps, s.ns+"/sign-of-life") != nil })
	s.create("after")
	s.modify("before")
	s.delete("before")
	s.waitFor("the end", func(state watcher.State) bool {
		return state.Get(configMaps, s.ns+"/after") != nil && state.Get(configMaps, s.ns+"/before") == nil
	})
	want := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}
	if diff := cmp.Diff(want, s.eventTypes("before")); diff != "" {
		t.Error(diff)
	}
	if s.w.History(configMaps, s.ns+"/after")[0].FromList {
		t.Error("an event after the crash came from a list, want it from the watch")
	}
}

// Objects are created and deleted while the watcher cannot reach the API server; the restart ensures that the watch
// cannot be resumed (410). The differences must be recorded.
func testEventsMissed(t *testing.T, plane *controlplane.Plane) {
	transport := &cuttableTransport{}
	cfg := rest.CopyConfig(plane.Config)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { transport.RoundTripper = rt; return transport })
	s := newFixture(t, plane, cfg)
	for _, name := range []string{"changed", "gone", "same"} {
		s.create(name)
	}
	s.waitFor("three", func(state watcher.State) bool { return s.count(state) == 3 })

	transport.disconnect()
	s.modify("changed")
	s.delete("gone")
	s.create("born")
	s.create("unseen")
	s.delete("unseen")
	s.restartAPIServer(plane)
	transport.reconnect()
	s.waitFor("born", func(state watcher.State) bool { return state.Get(configMaps, s.ns+"/born") != nil })

	got := map[string][]watch.EventType{}
	for _, name := range []string{"born", "changed", "gone", "same", "unseen"} {
		got[name] = s.eventTypes(name)
	}
	want := map[string][]watch.EventType{
		"born": {watch.Added}, "changed": {watch.Added, watch.Modified}, "gone": {watch.Added, watch.Deleted},
		"same": {watch.Added}, "unseen": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !s.w.History(configMaps, s.ns+"/gone")[1].FromList {
		t.Error("got an event of a missed deletion without FromList")
	}
	s.modify("born")
	s.waitFor("a change from the new watch", func(state watcher.State) bool {
		_, ok := state.FirstObserved(configMaps, s.ns+"/born", func(e watcher.Event) bool { return e.Type == watch.Modified && !e.FromList })
		return ok
	})
}

// fixture is a namespace, a client that changes objects in it, and a watcher.
type fixture struct {
	*testing.T
	ns     string
	client typedcorev1.ConfigMapInterface
	w      *watcher.Watcher
}

func newFixture(t *testing.T, plane *controlplane.Plane, watchConfig *rest.Config) *fixture {
	t.Helper()
	ns := testutil.Namespace(t, plane.Config)
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	w, err := watcher.Start(t.Context(), watchConfig, configMaps, secrets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &fixture{T: t, ns: ns, client: client.CoreV1().ConfigMaps(ns), w: w}
}

func (s *fixture) create(name string) {
	s.Helper()
	_, err := s.client.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.check(err)
}

func (s *fixture) modify(name string) {
	s.Helper()
	_, err := s.client.Patch(s.Context(), name, types.MergePatchType, []byte(`{"data":{"changed":"yes"}}`), metav1.PatchOptions{})
	s.check(err)
}

func (s *fixture) delete(name string) {
	s.Helper()
	s.check(s.client.Delete(s.Context(), name, metav1.DeleteOptions{}))
}

func (s *fixture) restartAPIServer(plane *controlplane.Plane) {
	s.Helper()
	s.check(plane.APIServer.Kill())
	s.check(plane.APIServer.Start())
	s.check(plane.WaitReady(s.Context()))
}

func (s *fixture) waitFor(what string, condition func(watcher.State) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), waitTimeout)
	defer cancel()
	s.check(s.w.WaitFor(ctx, what, condition))
}

func (s *fixture) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *fixture) count(state watcher.State) int {
	n := 0
	for _, o := range state.Live(configMaps) {
		if o.GetNamespace() == s.ns {
			n++
		}
	}
	return n
}

func (s *fixture) eventTypes(name string) []watch.EventType {
	var types []watch.EventType
	for _, e := range s.w.History(configMaps, s.ns+"/"+name) {
		types = append(types, e.Type)
	}
	return types
}

// cuttableTransport can be disconnected: active requests end, new ones fail.
type cuttableTransport struct {
	http.RoundTripper
	mu           sync.Mutex
	disconnected bool
	cancels      []context.CancelFunc
}

func (w *cuttableTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	if w.disconnected {
		w.mu.Unlock()
		return nil, errors.New("disconnected")
	}
	ctx, cancel := context.WithCancel(r.Context())
	w.cancels = append(w.cancels, cancel)
	w.mu.Unlock()
	return w.RoundTripper.RoundTrip(r.WithContext(ctx))
}

func (w *cuttableTransport) disconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disconnected = true
	for _, cancel := range w.cancels {
		cancel()
	}
}

func (w *cuttableTransport) reconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disconnected = false
}
