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
		t.Errorf("two wait, one of them for 2 s: %+v", q)
	}
	clk.onNow = func() { during = append(during, m.Queue()) }
	m.Refresh()
	clk.onNow = nil
	// While it works, those that are left still wait.
	if len(during) != 3 || during[0].Waiting != 2 || during[0].OldestSeconds != 2 || during[len(during)-1].Waiting != 1 {
		t.Errorf("during the looks: %+v", during)
	}
	if q := m.Queue(); q.Waiting != 0 || q.OldestSeconds != 0 || q.Builds != 2 {
		t.Errorf("both were looked at: %+v", q)
	}
}

// hookClock tells when it is asked, as it is at the beginning of a pass and of each look.
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
