package model

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/store"
)

func TestQueueStats(t *testing.T) {
	fakeClock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var during []Queue
	clk := &hookClock{FakeClock: fakeClock}
	m := New(Options{Clock: clk, InformerState: func(schema.GroupKind, string) informers.State { return informers.Live }})
	m.Store = store.New(IndexTerms, m.HandleChanges)
	m.MarkDirty(Ref{Kind: "AppStack", Namespace: "demo", Name: "a"})
	fakeClock.Step(2 * time.Second)
	m.MarkDirty(Ref{Kind: "AppStack", Namespace: "demo", Name: "b"}, Ref{Kind: "AppStack", Namespace: "demo", Name: "a"})
	if q := m.Queue(); q.Waiting != 2 || q.OldestSeconds != 2 || q.Builds != 0 {
		t.Errorf("want 2 waiting, the oldest for 2 s: %+v", q)
	}
	clk.onNow = func() { during = append(during, m.Queue()) }
	m.Refresh()
	clk.onNow = nil
	// During a batch, the remaining applications still count as waiting.
	if len(during) != 3 || during[0].Waiting != 2 || during[0].OldestSeconds != 2 || during[len(during)-1].Waiting != 1 {
		t.Errorf("during the builds: %+v", during)
	}
	if q := m.Queue(); q.Waiting != 0 || q.OldestSeconds != 0 || q.Builds != 2 {
		t.Errorf("want 2 builds: %+v", q)
	}
}

// hookClock calls a hook when it is read, as happens at the start of a batch and of each build.
type hookClock struct {
	*testclock.FakeClock
	onNow func()
}

func (c *hookClock) Now() time.Time {
	if c.onNow != nil {
		c.onNow()
	}
	return c.FakeClock.Now()
}
