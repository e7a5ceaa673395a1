package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

const ownerUID types.UID = "us"

var webKey = key{desired.ID{Kind: desired.KindDeployment, Name: "web"}, "shop"}

func newChildCache() *childCache { return &childCache{owners: map[types.UID]map[key]*entry{}} }

func newClock() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
}

// deploymentAt is a Deployment at a moment of its life.
func deploymentAt(uid types.UID, resourceVersion string, generation int64) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: uid, ResourceVersion: resourceVersion, Generation: generation}}
}

// renderConfig is a configuration; another image makes it another wish.
func renderConfig(t *testing.T, image string) *desired.Config {
	t.Helper()
	owner := desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: ownerUID}
	config, err := buildComponent(t, owner, "{image: "+image+"}").Children[0].Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestNotYetCached names what lists of the cache may lack: until the cache has it, or saw it go.
func TestNotYetCached(t *testing.T) {
	now := newClock().Now()
	cases := map[string]struct {
		then func(*childCache)
		want int
	}{
		"written":                      {func(*childCache) {}, 1},
		"looked for in vain":           {func(cache *childCache) { cache.newest(webKey, ownerUID, nil, now) }, 1},
		"looked for and found":         {func(cache *childCache) { cache.newest(webKey, ownerUID, deploymentAt("a", "100", 1), now) }, 0},
		"looked for in vain for long":  {func(cache *childCache) { cache.newest(webKey, ownerUID, nil, now.Add(cacheLagTolerance+time.Second)) }, 0},
		"seen going":                   {func(cache *childCache) { cache.dropDeleted(webKey, ownerUID, "a") }, 0},
		"another of its name is going": {func(cache *childCache) { cache.dropDeleted(webKey, ownerUID, "b") }, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache := newChildCache()
			cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, now)
			tc.then(cache)
			if got := cache.notYetCached(ownerUID); len(got) != tc.want || tc.want == 1 && got[0] != webKey.ID {
				t.Errorf("unseen: %v, want %d", got, tc.want)
			}
		})
	}
}

// TestNewestPrefersLaterVersion holds the answer to a write against what the cache says later.
func TestNewestPrefersLaterVersion(t *testing.T) {
	answer := deploymentAt("a", "100", 1)
	cases := map[string]struct {
		cached client.Object
		later  time.Duration
		want   client.Object
	}{
		"the cache has nothing yet":             {cached: nil, want: answer},
		"the cache has an older state":          {cached: deploymentAt("a", "99", 1), want: answer},
		"older as a number, not as a text":      {cached: deploymentAt("a", "9", 1), want: answer},
		"the cache has the same":                {cached: deploymentAt("a", "100", 1), want: deploymentAt("a", "100", 1)},
		"the cache has a newer state":           {cached: deploymentAt("a", "101", 2), want: deploymentAt("a", "101", 2)},
		"the cache has a successor":             {cached: deploymentAt("b", "105", 1), want: deploymentAt("b", "105", 1)},
		"the cache has its predecessor":         {cached: deploymentAt("z", "50", 1), want: answer},
		"the cache has nothing for a long time": {cached: nil, later: cacheLagTolerance + time.Second, want: nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache, clock := newChildCache(), newClock()
			cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), answer, divergence{}, clock.Now())
			clock.SetTime(clock.Now().Add(tc.later))
			got := cache.newest(webKey, ownerUID, tc.cached, clock.Now())
			if (got == nil) != (tc.want == nil) || got != nil && (got.GetUID() != tc.want.GetUID() || got.GetResourceVersion() != tc.want.GetResourceVersion()) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNewestDropsWriteOnceCached sees the cache catch up once: an answer is not believed again when
// the object is gone afterwards.
func TestNewestDropsWriteOnceCached(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	cache.newest(webKey, ownerUID, deploymentAt("a", "100", 1), clock.Now())
	if got := cache.newest(webKey, ownerUID, nil, clock.Now()); got != nil {
		t.Errorf("a deleted object is still there: %v", got)
	}
}

func TestDeletedChildIsDropped(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	cache.dropDeleted(webKey, ownerUID, "z")
	if cache.newest(webKey, ownerUID, nil, clock.Now()) == nil {
		t.Error("the end of its predecessor took the object with it")
	}
	cache.dropDeleted(webKey, ownerUID, "a")
	if cache.newest(webKey, ownerUID, nil, clock.Now()) != nil {
		t.Error("the object was seen to go and is still there")
	}
	if !cache.wasOwned(webKey, ownerUID) {
		t.Error("what is created again must count as a repair")
	}
}

func TestCompareKnown(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 3), divergence{fields: "digest"}, clock.Now())
	cases := map[string]struct {
		image                            string
		live                             client.Object
		wantUnchanged, wantSpecUnchanged bool
		wantPrevious                     string
	}{
		"the same":                    {"nginx", deploymentAt("a", "100", 3), true, true, "digest"},
		"a label or the status moved": {"nginx", deploymentAt("a", "101", 3), false, true, "digest"},
		"the spec moved":              {"nginx", deploymentAt("a", "101", 4), false, false, "digest"},
		"another wish":                {"httpd", deploymentAt("a", "100", 3), false, false, ""},
		"another object":              {"nginx", deploymentAt("b", "100", 3), false, false, ""},
		"a kind without a generation": {"nginx", deploymentAt("a", "101", 0), false, false, "digest"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			unchanged, specUnchanged, previous := cache.compareKnown(webKey, ownerUID, renderConfig(t, tc.image), tc.live)
			if unchanged != tc.wantUnchanged || specUnchanged != tc.wantSpecUnchanged || previous.fields != tc.wantPrevious {
				t.Errorf("got %t %t %q", unchanged, specUnchanged, previous.fields)
			}
		})
	}
	if !cache.sameFingerprint(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "105", 5)) || cache.sameFingerprint(webKey, ownerUID, renderConfig(t, "httpd"), deploymentAt("a", "105", 5)) ||
		cache.sameFingerprint(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("b", "105", 5)) {
		t.Error("a wish is that of one object")
	}
}

// TestRepairsAreRateLimited fights for half a minute: a burst, then one a second, one piece of news.
func TestRepairsAreRateLimited(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	start, repairs, started := clock.Now(), 0, 0
	for clock.Now().Before(start.Add(30 * time.Second)) {
		wait, startedNow := cache.allowRepair(webKey, ownerUID, clock.Now())
		if startedNow {
			started++
		}
		if wait == 0 {
			repairs++
		}
		if wait > time.Second+time.Millisecond {
			t.Fatalf("held back for %s", wait)
		}
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
	}
	if repairs < 33 || repairs > 35 || started != 1 {
		t.Errorf("%d repairs and %d pieces of news in 30 s", repairs, started)
	}
	if remaining := cache.contentionRemaining(webKey, ownerUID, clock.Now()); remaining < 4*time.Second || remaining > 5*time.Second+time.Millisecond {
		t.Errorf("peace in %s", remaining)
	}
	// As long as one waits as long as one was told, one may.
	if wait, _ := cache.allowRepair(webKey, ownerUID, clock.Now()); wait > 0 {
		clock.SetTime(clock.Now().Add(wait))
		if wait, _ := cache.allowRepair(webKey, ownerUID, clock.Now()); wait > 0 {
			t.Errorf("held back again for %s", wait)
		}
	}
	// After a rest it is over, and the next fight is news again.
	clock.SetTime(clock.Now().Add(cache.contentionRemaining(webKey, ownerUID, clock.Now())))
	if remaining := cache.contentionRemaining(webKey, ownerUID, clock.Now()); remaining != 0 {
		t.Errorf("peace in %s", remaining)
	}
	for range repairBurst {
		if wait, startedNow := cache.allowRepair(webKey, ownerUID, clock.Now()); wait > 0 || startedNow {
			t.Fatalf("the burst is over too soon: %s, news: %t", wait, startedNow)
		}
	}
	if wait, startedNow := cache.allowRepair(webKey, ownerUID, clock.Now()); wait == 0 || !startedNow {
		t.Errorf("the second fight: %s, news: %t", wait, startedNow)
	}
	other := webKey
	other.Name = "other"
	if wait, _ := cache.allowRepair(other, ownerUID, clock.Now()); wait > 0 {
		t.Error("one child is held back for another")
	}
}

func TestForgetOwner(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	cache.setNameConflict(webKey, "others", &ownership.NameConflict{}, clock.Now())
	cache.dropOwner(ownerUID)
	if conflict, fresh := cache.nameConflict(webKey, "others", clock.Now()); len(cache.owners) != 1 || cache.wasOwned(webKey, ownerUID) || conflict == nil || !fresh {
		t.Errorf("left: %v", cache.owners)
	}
	if conflict, fresh := cache.nameConflict(webKey, "others", clock.Now().Add(10*time.Second)); conflict == nil || fresh {
		t.Error("whose a name is must be asked again after a while")
	}
	cache.setNameConflict(webKey, "others", &ownership.NameConflict{Incompatible: true}, clock.Now())
	if _, fresh := cache.nameConflict(webKey, "others", clock.Now()); fresh {
		t.Error("an edit of the spec may end a refusal at any time")
	}
	cache.recordApplied(webKey, "others", renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	if conflict, _ := cache.nameConflict(webKey, "others", clock.Now()); conflict != nil {
		t.Error("what we could write is not somebody else's")
	}
}

// A write whose answer was lost may have moved the pods: what the status said before it is
// no answer to it.
func TestDesiredGenerationAfterUnknownOutcome(t *testing.T) {
	cache := childCache{owners: map[types.UID]map[key]*entry{}}
	k := key{desired.ID{Kind: desired.KindDeployment, Name: "web"}, "shop"}
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	if got := cache.updateDesiredGeneration(k, "owner", nil, before); got != 1 {
		t.Fatalf("asked in generation %d, want 1", got)
	}
	cache.resetDesiredGeneration(k, "owner")
	// A write that is refused because the object has changed tells nothing about that change.
	if got := cache.updateDesiredGeneration(k, "owner", nil, nil); got != 0 {
		t.Errorf("asked in generation %d, want that this is not known", got)
	}
	after := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	if got := cache.updateDesiredGeneration(k, "owner", after, after); got != 2 {
		t.Errorf("asked in generation %d, want the one that is seen next, 2", got)
	}
}
