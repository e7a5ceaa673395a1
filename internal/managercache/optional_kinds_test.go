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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// TestUnservedKindIsCheckedOncePerInterval checks that many applications with an unserved kind
// cause one discovery request.
func TestUnservedKindIsCheckedOncePerInterval(t *testing.T) {
	checks := 0
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := &OptionalKind{Kind: childkind.Optional[0], clock: clock, cache: newCompositeCache(appsapi.DefaultKeys, nil, nil, nil),
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
		t.Error("an unserved kind is readable, or a served one is not")
	}
	clock.SetTime(clock.Now().Add(discoveryInterval))
	_ = all.EnsureWritable(t.Context(), "shop", id)
	if checks != 2 {
		t.Errorf("%d discovery requests, want one in %s", checks, discoveryInterval)
	}
}

// TestWatchEpochAdvancesOnce simulates two controllers that share a cache: when one notices that a
// kind is no longer served, the watch of the other has ended, too.
func TestWatchEpochAdvancesOnce(t *testing.T) {
	l := &watchEpochs{ended: map[schema.GroupVersionKind]int{}}
	first := l.current(desired.KindRoute)
	l.advance(desired.KindRoute, first)
	l.advance(desired.KindRoute, first) // the other controller notices later
	if second := l.current(desired.KindRoute); first == 0 || second != first+1 {
		t.Errorf("the epochs are %d and %d", first, second)
	}
}

// TestForbiddenKindDoesNotBlockStart checks that controllers start without a kind that the operator
// must not watch, and that applications that need it get the error.
func TestForbiddenKindDoesNotBlockStart(t *testing.T) {
	checks := 0
	o := &OptionalKind{Kind: childkind.Optional[0], clock: clocktesting.NewFakePassiveClock(time.Now()), initialized: make(chan struct{}),
		cache:    newCompositeCache(appsapi.DefaultKeys, forbiddenCache{}, nil, clientgoscheme.Scheme),
		isServed: func(context.Context, schema.GroupVersionKind) (bool, error) { checks++; return true, nil }}
	if err := errors.Join(o.Start(t.Context(), nil), o.WaitForSync(t.Context())); err != nil {
		t.Fatal(err)
	}
	if o.isWatched() || checks != maxInitialWatchAttempts {
		t.Errorf("%d attempts", checks)
	}
	for range 2 {
		if _, err := o.ensureWatched(t.Context()); !errors.Is(err, errForbidden) {
			t.Errorf("got %v", err)
		}
	}
}

var errForbidden = errors.New("forbidden")

// forbiddenCache fails every watch.
type forbiddenCache struct{ ctrlcache.Cache }

func (forbiddenCache) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errForbidden
}

func (forbiddenCache) RemoveInformer(context.Context, client.Object) error { return nil }
