package managercache

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// TestUnservedKindIsCheckedOncePerInterval is wanted by many and asked about by one.
func TestUnservedKindIsCheckedOncePerInterval(t *testing.T) {
	checks := 0
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := &OptionalKind{ChildKind: OptionalChildKinds[0], clock: clock, cache: newCompositeCache(nil, nil, nil),
		isServed: func(context.Context, schema.GroupVersionKind) (bool, error) { checks++; return false, nil }}
	all := OptionalKinds{desired.KindRoute: o}
	id := desired.ID{Kind: desired.KindRoute, Name: "web"}
	for range 100 {
		var unknown *ownership.UnknownKind
		if err := all.EnsureWritable(t.Context(), "shop", id); !errors.As(err, &unknown) {
			t.Fatalf("got %v", err)
		}
	}
	if all.IsReadable(desired.KindRoute) || !all.IsReadable(desired.KindService) {
		t.Error("what is not known can be read, or the other way round")
	}
	clock.SetTime(clock.Now().Add(discoveryInterval))
	_ = all.EnsureWritable(t.Context(), "shop", id)
	if checks != 2 {
		t.Errorf("the API server was asked %d times, want once in %s", checks, discoveryInterval)
	}
}

// TestWatchEpochAdvancesOnce is about two controllers that share a cache: when one of them sees that a kind
// has gone, the watch of the other has ended too.
func TestWatchEpochAdvancesOnce(t *testing.T) {
	l := &watchEpochs{ended: map[schema.GroupVersionKind]int{}}
	first := l.current(desired.KindRoute)
	l.advance(desired.KindRoute, first)
	l.advance(desired.KindRoute, first) // the other one notices later
	if second := l.current(desired.KindRoute); first == 0 || second != first+1 {
		t.Errorf("the lives are %d and %d", first, second)
	}
}

// TestForbiddenKindDoesNotBlockStart is known to the API server and forbidden to us: controllers
// start without it, and whoever wants it is told why.
func TestForbiddenKindDoesNotBlockStart(t *testing.T) {
	checks := 0
	o := &OptionalKind{ChildKind: OptionalChildKinds[0], clock: clocktesting.NewFakePassiveClock(time.Now()), initialized: make(chan struct{}),
		cache:    newCompositeCache(forbiddenCache{}, nil, clientgoscheme.Scheme),
		isServed: func(context.Context, schema.GroupVersionKind) (bool, error) { checks++; return true, nil }}
	if err := errors.Join(o.Start(t.Context(), nil), o.WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	if o.isWatched() || checks != maxInitialWatchAttempts {
		t.Errorf("it was tried %d times", checks)
	}
	for range 2 {
		if _, err := o.ensureWatched(t.Context()); !errors.Is(err, errForbidden) {
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
