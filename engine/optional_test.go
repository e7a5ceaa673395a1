package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/own"
)

// TestUnknownKind is wanted by many and asked about by one.
func TestUnknownKind(t *testing.T) {
	asked := 0
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := &optional{childKind: optionalChildren[0], clock: clock, cache: splitCache{lives: &lives{}},
		known: func(context.Context, schema.GroupVersionKind) (bool, error) { asked++; return false, nil }}
	all := optionals{desired.KindRoute: o}
	id := desired.ID{Kind: desired.KindRoute, Name: "web"}
	for range 100 {
		var unknown *own.UnknownKind
		if err := all.writable(t.Context(), "shop", id); !errors.As(err, &unknown) {
			t.Fatalf("got %v", err)
		}
	}
	if all.readable(desired.KindRoute) || !all.readable(desired.KindService) {
		t.Error("what is not known can be read, or the other way round")
	}
	clock.SetTime(clock.Now().Add(askAgain))
	_ = all.writable(t.Context(), "shop", id)
	if asked != 2 {
		t.Errorf("the API server was asked %d times, want once in %s", asked, askAgain)
	}
}

// TestLives is about two controllers that share a cache: when one of them sees that a kind
// has gone, the watch of the other has ended too.
func TestLives(t *testing.T) {
	l := &lives{count: map[schema.GroupVersionKind]int{}}
	first := l.of(desired.KindRoute)
	l.end(desired.KindRoute, first)
	l.end(desired.KindRoute, first) // the other one notices later
	if second := l.of(desired.KindRoute); first == 0 || second != first+1 {
		t.Errorf("the lives are %d and %d", first, second)
	}
}

// TestKindThatCannotBeWatched is known to the API server and forbidden to us: controllers
// start without it, and whoever wants it is told why.
func TestKindThatCannotBeWatched(t *testing.T) {
	asked := 0
	o := &optional{childKind: optionalChildren[0], clock: clocktesting.NewFakePassiveClock(time.Now()), looked: make(chan struct{}),
		cache: splitCache{Cache: forbiddenCache{}, lives: &lives{count: map[schema.GroupVersionKind]int{}}},
		known: func(context.Context, schema.GroupVersionKind) (bool, error) { asked++; return true, nil }}
	if err := errors.Join(o.Start(t.Context(), nil), o.WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	if o.isLive() || asked != firstTries {
		t.Errorf("it was tried %d times", asked)
	}
	for range 2 {
		if _, err := o.want(t.Context()); !errors.Is(err, errForbidden) {
			t.Errorf("got %v", err)
		}
	}
}

var errForbidden = errors.New("forbidden")

// forbiddenCache cannot watch anything.
type forbiddenCache struct{ ctrlcache.Cache }

func (forbiddenCache) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errForbidden
}

func (forbiddenCache) RemoveInformer(context.Context, client.Object) error { return nil }
