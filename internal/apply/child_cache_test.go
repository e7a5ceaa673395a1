package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

const ownerUID types.UID = "us"

var webKey = key{desired.ID{Kind: desired.KindDeployment, Name: "web"}, "shop"}

func newChildCache() *childCache { return &childCache{owners: map[types.UID]map[key]*entry{}} }

func newClock() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
}

// deploymentAt returns a Deployment at a resourceVersion and generation.
func deploymentAt(uid types.UID, resourceVersion string, generation int64) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: uid, ResourceVersion: resourceVersion, Generation: generation}}
}

// renderConfig returns a configuration that depends on the image.
func renderConfig(t *testing.T, image string) *desired.Config {
	t.Helper()
	owner := desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: ownerUID}
	config, err := buildComponent(t, owner, "{image: "+image+"}").Children[0].Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestNotYetCached checks which children lists of the cache may lack: until the cache shows them,
// or their deletion.
func TestNotYetCached(t *testing.T) {
	now := newClock().Now()
	cases := map[string]struct {
		then func(*childCache)
		want int
	}{
		"written":                             {func(*childCache) {}, 1},
		"not in the cache":                    {func(cache *childCache) { cache.newest(webKey, ownerUID, nil, now) }, 1},
		"in the cache":                        {func(cache *childCache) { cache.newest(webKey, ownerUID, deploymentAt("a", "100", 1), now) }, 0},
		"not in the cache for long":           {func(cache *childCache) { cache.newest(webKey, ownerUID, nil, now.Add(cacheLagTolerance+time.Second)) }, 0},
		"deletion observed":                   {func(cache *childCache) { cache.dropDeleted(webKey, ownerUID, "a") }, 0},
		"deletion of another object observed": {func(cache *childCache) { cache.dropDeleted(webKey, ownerUID, "b") }, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache := newChildCache()
			cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, now)
			tc.then(cache)
			if got := cache.notYetCached(ownerUID); len(got) != tc.want || tc.want == 1 && got[0] != webKey.ID {
				t.Errorf("not yet cached: %v, want %d", got, tc.want)
			}
		})
	}
}

// TestNewestPrefersLaterVersion compares the response to a write with later versions in the cache.
func TestNewestPrefersLaterVersion(t *testing.T) {
	answer := deploymentAt("a", "100", 1)
	cases := map[string]struct {
		cached client.Object
		later  time.Duration
		want   client.Object
	}{
		"cache has nothing yet":              {cached: nil, want: answer},
		"cache has an older version":         {cached: deploymentAt("a", "99", 1), want: answer},
		"older as a number, not as a string": {cached: deploymentAt("a", "9", 1), want: answer},
		"cache has the same version":         {cached: deploymentAt("a", "100", 1), want: deploymentAt("a", "100", 1)},
		"cache has a newer version":          {cached: deploymentAt("a", "101", 2), want: deploymentAt("a", "101", 2)},
		"cache has a recreated object":       {cached: deploymentAt("b", "105", 1), want: deploymentAt("b", "105", 1)},
		"cache has a deleted predecessor":    {cached: deploymentAt("z", "50", 1), want: answer},
		"cache has nothing for a long time":  {cached: nil, later: cacheLagTolerance + time.Second, want: nil},
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

// TestNewestDropsWriteOnceCached checks that a response is dropped once the cache shows it, and
// does not reappear after the object is deleted.
func TestNewestDropsWriteOnceCached(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	cache.newest(webKey, ownerUID, deploymentAt("a", "100", 1), clock.Now())
	if got := cache.newest(webKey, ownerUID, nil, clock.Now()); got != nil {
		t.Errorf("a deleted object is returned: %v", got)
	}
}

func TestDeletedChildIsDropped(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	cache.dropDeleted(webKey, ownerUID, "z")
	if cache.newest(webKey, ownerUID, nil, clock.Now()) == nil {
		t.Error("the deletion of its predecessor dropped the object")
	}
	cache.dropDeleted(webKey, ownerUID, "a")
	if cache.newest(webKey, ownerUID, nil, clock.Now()) != nil {
		t.Error("the object is returned after its deletion was observed")
	}
	if !cache.wasOwned(webKey, ownerUID) {
		t.Error("a recreated object must count as a repair")
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
		"unchanged":                 {"nginx", deploymentAt("a", "100", 3), true, true, "digest"},
		"changed label or status":   {"nginx", deploymentAt("a", "101", 3), false, true, "digest"},
		"changed spec":              {"nginx", deploymentAt("a", "101", 4), false, false, "digest"},
		"other configuration":       {"httpd", deploymentAt("a", "100", 3), false, false, ""},
		"other object":              {"nginx", deploymentAt("b", "100", 3), false, false, ""},
		"kind without a generation": {"nginx", deploymentAt("a", "101", 0), false, false, "digest"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			unchanged, specUnchanged, previous := cache.unchangedSinceComparison(webKey, ownerUID, renderConfig(t, tc.image), tc.live)
			if unchanged != tc.wantUnchanged || specUnchanged != tc.wantSpecUnchanged || previous.fields != tc.wantPrevious {
				t.Errorf("got %t %t %q", unchanged, specUnchanged, previous.fields)
			}
		})
	}
	if !cache.sameFingerprint(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "105", 5)) || cache.sameFingerprint(webKey, ownerUID, renderConfig(t, "httpd"), deploymentAt("a", "105", 5)) ||
		cache.sameFingerprint(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("b", "105", 5)) {
		t.Error("a fingerprint must belong to one object")
	}
}

// TestRepairsAreRateLimited simulates contention for half a minute: a burst, then one repair per
// second, and one event.
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
			t.Fatalf("delayed by %s", wait)
		}
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
	}
	if repairs < 33 || repairs > 35 || started != 1 {
		t.Errorf("%d repairs and %d events in 30 s", repairs, started)
	}
	if remaining := cache.contentionRemaining(webKey, ownerUID, clock.Now()); remaining < 4*time.Second || remaining > 5*time.Second+time.Millisecond {
		t.Errorf("contention remaining: %s", remaining)
	}
	// A repair is allowed after exactly the returned delay.
	if wait, _ := cache.allowRepair(webKey, ownerUID, clock.Now()); wait > 0 {
		clock.SetTime(clock.Now().Add(wait))
		if wait, _ := cache.allowRepair(webKey, ownerUID, clock.Now()); wait > 0 {
			t.Errorf("delayed again by %s", wait)
		}
	}
	// After a pause the contention ends, and the next one starts with an event.
	clock.SetTime(clock.Now().Add(cache.contentionRemaining(webKey, ownerUID, clock.Now())))
	if remaining := cache.contentionRemaining(webKey, ownerUID, clock.Now()); remaining != 0 {
		t.Errorf("contention remaining: %s", remaining)
	}
	for range repairBurst {
		if wait, startedNow := cache.allowRepair(webKey, ownerUID, clock.Now()); wait > 0 || startedNow {
			t.Fatalf("the burst ended too early: delay %s, started: %t", wait, startedNow)
		}
	}
	if wait, startedNow := cache.allowRepair(webKey, ownerUID, clock.Now()); wait == 0 || !startedNow {
		t.Errorf("second contention: delay %s, started: %t", wait, startedNow)
	}
	other := webKey
	other.Name = "other"
	if wait, _ := cache.allowRepair(other, ownerUID, clock.Now()); wait > 0 {
		t.Error("repairs of one child delay another child")
	}
}

func TestForgetOwner(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	cache.recordApplied(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	cache.setNameConflict(webKey, "others", &ownership.NameConflict{}, clock.Now())
	cache.dropOwner(ownerUID)
	if conflict, fresh := cache.nameConflict(webKey, "others", clock.Now()); len(cache.owners) != 1 || cache.wasOwned(webKey, ownerUID) || conflict == nil || !fresh {
		t.Errorf("state is left: %v", cache.owners)
	}
	if conflict, fresh := cache.nameConflict(webKey, "others", clock.Now().Add(10*time.Second)); conflict == nil || fresh {
		t.Error("an old name conflict must be checked again")
	}
	cache.setNameConflict(webKey, "others", &ownership.NameConflict{Incompatible: true}, clock.Now())
	if _, fresh := cache.nameConflict(webKey, "others", clock.Now()); fresh {
		t.Error("an incompatible object must be checked again at any time")
	}
	cache.recordApplied(webKey, "others", renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{}, clock.Now())
	if conflict, _ := cache.nameConflict(webKey, "others", clock.Now()); conflict != nil {
		t.Error("a successful write must end a name conflict")
	}
}

// TestDesiredGenerationAfterUnknownOutcome checks that a write whose response was lost resets the
// desired generation, because it may have changed the pods.
func TestDesiredGenerationAfterUnknownOutcome(t *testing.T) {
	cache := childCache{owners: map[types.UID]map[key]*entry{}}
	k := key{desired.ID{Kind: desired.KindDeployment, Name: "web"}, "shop"}
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	if got := cache.updateDesiredGeneration(k, "owner", nil, before); got != 1 {
		t.Fatalf("desired generation %d, want 1", got)
	}
	cache.resetDesiredGeneration(k, "owner")
	// A conflict says nothing about the change that caused it.
	if got := cache.updateDesiredGeneration(k, "owner", nil, nil); got != 0 {
		t.Errorf("desired generation %d, want an unknown one", got)
	}
	after := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	if got := cache.updateDesiredGeneration(k, "owner", after, after); got != 2 {
		t.Errorf("desired generation %d, want the next observed one, 2", got)
	}
}
