package model

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/center/registry"
	"github.com/holdfast-dev/holdfast/internal/center/store"
)

func TestQueue(t *testing.T) {
	now := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := New(Options{Clock: now, State: func(schema.GroupKind, string) registry.State { return registry.Live }})
	m.Store = store.New(Terms, m.Changed)
	m.Touch(Ref{Kind: "AppStack", Namespace: "demo", Name: "a"})
	now.Step(2 * time.Second)
	m.Touch(Ref{Kind: "AppStack", Namespace: "demo", Name: "b"}, Ref{Kind: "AppStack", Namespace: "demo", Name: "a"})
	if q := m.Queue(); q.Waiting != 2 || q.OldestSeconds != 2 || q.Looks != 0 {
		t.Errorf("two wait, one of them for 2 s: %+v", q)
	}
	m.Refresh()
	if q := m.Queue(); q.Waiting != 0 || q.OldestSeconds != 0 || q.Looks != 2 {
		t.Errorf("both were looked at: %+v", q)
	}
}
