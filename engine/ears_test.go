package engine

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

// gossip answers every question about events and remembers who was asked about.
type gossip struct {
	client.Reader
	asked  []string
	broken bool
}

func (g *gossip) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	name, _ := o.FieldSelector.RequiresExactMatch("involvedObject.name")
	g.asked = append(g.asked, name)
	if g.broken {
		return fmt.Errorf("no answer")
	}
	list.(*corev1.EventList).Items = []corev1.Event{{Reason: "Said", Message: name}}
	return nil
}

// passes asks about the objects in this order, once a second, as reconciles do.
func passes(t *testing.T, e *ears, c *clocktesting.FakePassiveClock, length time.Duration, objects ...explain.Object) {
	t.Helper()
	for end := c.Now().Add(length); c.Now().Before(end); c.SetTime(c.Now().Add(time.Second)) {
		for _, o := range objects {
			if _, next := e.about(t.Context(), "app", o); !next.After(c.Now()) {
				t.Fatalf("%s is to be asked about at %s, and it is %s", o.Name, next, c.Now())
			}
		}
	}
}

func podCalled(name string) explain.Object {
	return explain.Object{Kind: "Pod", Namespace: "shop", Name: name, UID: types.UID(name)}
}

func count(all []string, name string) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n != name }))
}

func TestEveryoneGetsATurn(t *testing.T) {
	g, c := &gossip{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	e := newEars(g, c)
	all := []explain.Object{podCalled("a"), podCalled("b"), podCalled("c")}
	passes(t, e, c, 2*time.Minute, all...)
	for _, o := range all {
		if heard, _ := e.about(t.Context(), "app", o); len(heard) != 1 || heard[0].Message != o.Name {
			t.Errorf("of %s was heard %v after two minutes", o.Name, heard)
		}
	}
	if len(g.asked) > 12 {
		t.Errorf("%d questions within two minutes: %v", len(g.asked), g.asked)
	}
}

func TestSilenceIsAskedLessAndLess(t *testing.T) {
	g, c := &gossip{broken: true}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	e := newEars(g, c)
	passes(t, e, c, 10*time.Minute, podCalled("a"))
	if n := count(g.asked, "a"); n != 7 { // after 0, 10, 30, 70, 150, 310 and 470 seconds
		t.Errorf("asked %d times within ten minutes", n)
	}
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	g, c := &gossip{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	e := newEars(g, c)
	for i := range 100 { // a pod after the other, each in the place of the one before
		passes(t, e, c, 10*time.Second, podCalled(fmt.Sprint(i)))
	}
	if n := len(e.apps["app"].heard); n > 20 {
		t.Errorf("%d objects are remembered", n)
	}
	e.forget("app")
	if len(e.apps) != 0 {
		t.Error("the application is remembered")
	}
}
