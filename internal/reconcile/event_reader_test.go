package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// fakeEventLister returns an event for every object and records which objects were listed.
type fakeEventLister struct {
	client.Reader
	listed  []string
	failing bool
}

func (g *fakeEventLister) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	name, _ := o.FieldSelector.RequiresExactMatch("involvedObject.name")
	g.listed = append(g.listed, name)
	if g.failing {
		return fmt.Errorf("no response")
	}
	list.(*corev1.EventList).Items = []corev1.Event{{Reason: "Said", Message: name}}
	return nil
}

// simulateReconciles reads the events of the objects in this order, once per second.
func simulateReconciles(t *testing.T, e *eventReader, c *clocktesting.FakePassiveClock, duration time.Duration, objects ...explain.ObjectRef) {
	t.Helper()
	for end := c.Now().Add(duration); c.Now().Before(end); c.SetTime(c.Now().Add(time.Second)) {
		for _, o := range objects {
			if _, next := e.eventsFor(t.Context(), "app", o); !next.After(c.Now()) {
				t.Fatalf("%s is due at %s, but it is already %s", o.Name, next, c.Now())
			}
		}
	}
}

func podNamed(name string) explain.ObjectRef {
	return explain.ObjectRef{Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID(name)}
}

func countOf(all []string, name string) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n != name }))
}

func TestEventsOfEveryObjectAreListed(t *testing.T) {
	g, c := &fakeEventLister{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	e := newEventReader(g, c)
	all := []explain.ObjectRef{podNamed("a"), podNamed("b"), podNamed("c")}
	simulateReconciles(t, e, c, 2*time.Minute, all...)
	for _, o := range all {
		if got, _ := e.eventsFor(t.Context(), "app", o); len(got) != 1 || got[0].Message != o.Name {
			t.Errorf("%s has events %v after two minutes", o.Name, got)
		}
	}
	if len(g.listed) > 12 {
		t.Errorf("%d lists within two minutes: %v", len(g.listed), g.listed)
	}
}

func TestEventListIntervalGrows(t *testing.T) {
	g, c := &fakeEventLister{failing: true}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	e := newEventReader(g, c)
	simulateReconciles(t, e, c, 10*time.Minute, podNamed("a"))
	if n := countOf(g.listed, "a"); n != 7 { // after 0, 10, 30, 70, 150, 310 and 470 seconds
		t.Errorf("listed %d times within ten minutes", n)
	}
}

func TestEventReaderForgetsDeletedObjects(t *testing.T) {
	g, c := &fakeEventLister{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	e := newEventReader(g, c)
	for i := range 100 { // each pod replaces the one before
		simulateReconciles(t, e, c, 10*time.Second, podNamed(fmt.Sprint(i)))
	}
	if n := len(e.apps["app"].objects); n > 20 {
		t.Errorf("%d objects are cached", n)
	}
	e.forget("app")
	if len(e.apps) != 0 {
		t.Error("the deleted application is cached")
	}
}
