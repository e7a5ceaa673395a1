package watcher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// pod returns an object from "name@resourceVersion" or "name@resourceVersion#uid"; the default UID is the name.
func pod(text string) *unstructured.Unstructured {
	text, uid, hasUID := strings.Cut(text, "#")
	name, version, _ := strings.Cut(text, "@")
	if !hasUID {
		uid = name
	}
	o := &unstructured.Unstructured{}
	o.SetNamespace("shop")
	o.SetName(name)
	o.SetResourceVersion(version)
	o.SetUID(types.UID(uid))
	return o
}

func podList(texts ...string) []any {
	var all []any
	for _, text := range texts {
		all = append(all, pod(text))
	}
	return all
}

// newStore uses a clock that advances by one second per call.
func newStore() *store {
	var clock int64
	now := func() time.Time { clock++; return time.Unix(clock, 0) }
	return &store{recorder: newRecorder([]schema.GroupVersionResource{pods}, now), resource: pods, synced: make(chan struct{})}
}

func formatEvents(events []Event) []string {
	var texts []string
	for _, e := range events {
		text := fmt.Sprintf("%s %s@%s#%s", e.Type, e.Key, e.ResourceVersion, e.UID)
		if e.FromList {
			text += " listed"
		}
		texts = append(texts, text)
	}
	return texts
}

func TestRecord(t *testing.T) {
	tests := map[string]struct {
		run  func(*store) error
		want []string
		live []string
	}{
		"first list": {
			run:  func(s *store) error { return s.Replace(podList("b@2", "a@1"), "2") },
			want: []string{"ADDED shop/a@1#a listed", "ADDED shop/b@2#b listed"},
			live: []string{"a", "b"},
		},
		"watch": {
			run: func(s *store) error {
				return firstError(s.Replace(nil, "1"), s.Add(pod("a@2")), s.Update(pod("a@3")), s.Add(pod("b@4")), s.Delete(pod("a@5")))
			},
			want: []string{"ADDED shop/a@2#a", "MODIFIED shop/a@3#a", "ADDED shop/b@4#b", "DELETED shop/a@5#a"},
			live: []string{"b"},
		},
		"no missed change": {
			run: func(s *store) error {
				return firstError(s.Replace(podList("a@1"), "1"), s.Replace(podList("a@1"), "9"))
			},
			want: []string{"ADDED shop/a@1#a listed"},
			live: []string{"a"},
		},
		"changes missed": {
			run: func(s *store) error {
				return firstError(s.Replace(podList("gone@1", "same@2", "new@3"), "3"), s.Replace(podList("same@2", "new@7", "born@8"), "9"))
			},
			want: []string{
				"ADDED shop/gone@1#gone listed", "ADDED shop/new@3#new listed", "ADDED shop/same@2#same listed",
				"DELETED shop/gone@1#gone listed", "ADDED shop/born@8#born listed", "MODIFIED shop/new@7#new listed",
			},
			live: []string{"born", "new", "same"},
		},
		"replaced by another of the same name": {
			run: func(s *store) error {
				return firstError(s.Replace(podList("a@1"), "1"), s.Replace(podList("a@5#second"), "9"))
			},
			want: []string{"ADDED shop/a@1#a listed", "DELETED shop/a@1#a listed", "ADDED shop/a@5#second listed"},
			live: []string{"a"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			if err := tc.run(s); err != nil {
				t.Fatal(err)
			}
			state, _ := s.snapshot()
			if diff := cmp.Diff(tc.want, formatEvents(state.Events())); diff != "" {
				t.Errorf("events: %s", diff)
			}
			if diff := cmp.Diff(tc.live, liveNames(state)); diff != "" {
				t.Errorf("live: %s", diff)
			}
		})
	}
}

func liveNames(s State) []string {
	var names []string
	for _, o := range s.Live(pods) {
		names = append(names, o.GetName())
	}
	return names
}

// firstError returns the first error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestStateIsImmutable(t *testing.T) {
	s := newStore()
	if err := s.Replace(podList("a@1"), "1"); err != nil {
		t.Fatal(err)
	}
	before, changed := s.snapshot()
	if err := firstError(s.Add(pod("b@2")), s.Delete(pod("a@3"))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, liveNames(before)); diff != "" {
		t.Errorf("an earlier state changed: %s", diff)
	}
	if len(before.Events()) != 1 {
		t.Errorf("an earlier state has %d events, want 1", len(before.Events()))
	}
	select {
	case <-changed:
	default:
		t.Error("the channel of the earlier state is not closed")
	}
	after, _ := s.snapshot()
	if diff := cmp.Diff([]string{"b"}, liveNames(after)); diff != "" {
		t.Errorf("live: %s", diff)
	}
}

func TestHistoryAndFirstObserved(t *testing.T) {
	s := newStore()
	err := firstError(s.Add(pod("a@1")), s.Add(pod("b@2")), s.Update(pod("a@3")), s.Update(pod("a@4")), s.Delete(pod("a@5")))
	if err != nil {
		t.Fatal(err)
	}
	state, _ := s.snapshot()
	want := []string{"ADDED shop/a@1#a", "MODIFIED shop/a@3#a", "MODIFIED shop/a@4#a", "DELETED shop/a@5#a"}
	if diff := cmp.Diff(want, formatEvents(state.History(pods, "shop/a"))); diff != "" {
		t.Error(diff)
	}
	seen, ok := state.FirstObserved(pods, "shop/a", func(e Event) bool { return e.Type == watch.Modified })
	if !ok || !seen.Equal(time.Unix(3, 0)) {
		t.Errorf("got first observation at %v (%v), want second 3", seen.Unix(), ok)
	}
	if _, ok := state.FirstObserved(pods, "shop/b", func(e Event) bool { return e.Type == watch.Deleted }); ok {
		t.Error("got no deletion of b")
	}
	if state.Get(pods, "shop/a") != nil || state.Get(pods, "shop/b") == nil {
		t.Error("want only b to be live")
	}
}

func TestWaitFor(t *testing.T) {
	tests := map[string]struct {
		during  func(s *store, stop, cancel context.CancelFunc) error
		wantErr string
	}{
		"holds after some events": {
			during: func(s *store, _, _ context.CancelFunc) error { return firstError(s.Add(pod("a@2")), s.Add(pod("b@3"))) },
		},
		"context ends": {
			during: func(_ *store, _, cancel context.CancelFunc) error { cancel(); return nil },
			wantErr: "wait for b: context canceled; seen: 1 pods (shop/first); " +
				"last event ADDED pods shop/first at 1, 1s ago; not watching pods: refused",
		},
		"watcher ends": {
			during:  func(_ *store, stop, _ context.CancelFunc) error { stop(); return nil },
			wantErr: "wait for b: the watcher was stopped; seen: 1 pods",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			if err := s.Add(pod("first@1")); err != nil {
				t.Fatal(err)
			}
			watcherCtx, stop := context.WithCancel(t.Context())
			w := &Watcher{recorder: s.recorder, stop: stop, stopped: watcherCtx.Done()}
			_ = w.watchErrors.record(pods, fmt.Errorf("refused"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			evaluated, result := make(chan bool, 10), make(chan error)
			go func() {
				result <- w.WaitFor(ctx, "b", func(s State) bool {
					evaluated <- true
					return s.Get(pods, "shop/b") != nil
				})
			}()
			<-evaluated // now it waits
			if err := tc.during(s, stop, cancel); err != nil {
				t.Fatal(err)
			}
			checkError(t, <-result, tc.wantErr)
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
		return
	}
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestStateString(t *testing.T) {
	s := newStore()
	if err := s.Replace(podList("a@1", "b@1", "c@1", "d@1", "e@1", "f@1"), "1"); err != nil {
		t.Fatal(err)
	}
	state, _ := s.snapshot()
	want := "6 pods (shop/a, shop/b, shop/c, shop/d, shop/e, ...); last event ADDED pods shop/f at 1, 1s ago"
	if diff := cmp.Diff(want, state.String()); diff != "" {
		t.Error(diff)
	}
}
