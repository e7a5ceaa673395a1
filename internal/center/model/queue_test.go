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
	var during []Queue
	asked := &askedClock{FakeClock: now}
	m := New(Options{Clock: asked, State: func(schema.GroupKind, string) registry.State { return registry.Live }})
	m.Store = store.New(Terms, m.Changed)
	m.Touch(Ref{Kind: "AppStack", Namespace: "demo", Name: "a"})
	now.Step(2 * time.Second)
	m.Touch(Ref{Kind: "AppStack", Namespace: "demo", Name: "b"}, Ref{Kind: "AppStack", Namespace: "demo", Name: "a"})
	if q := m.Queue(); q.Waiting != 2 || q.OldestSeconds != 2 || q.Looks != 0 {
		t.Errorf("two wait, one of them for 2 s: %+v", q)
	}
	asked.each = func() { during = append(during, m.Queue()) }
	m.Refresh()
	asked.each = nil
	// While it works, those that are left still wait.
	if len(during) != 3 || during[0].Waiting != 2 || during[0].OldestSeconds != 2 || during[len(during)-1].Waiting != 1 {
		t.Errorf("during the looks: %+v", during)
	}
	if q := m.Queue(); q.Waiting != 0 || q.OldestSeconds != 0 || q.Looks != 2 {
		t.Errorf("both were looked at: %+v", q)
	}
}

// askedClock tells when it is asked, as it is at the beginning of a pass and of each look.
type askedClock struct {
	*testclock.FakeClock
	each func()
}

func (c *askedClock) Now() time.Time {
	if c.each != nil {
		c.each()
	}
	return c.FakeClock.Now()
}
