package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/desired"
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
		var unknown *unknownKind
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
