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
	"github.com/holdfast-dev/holdfast/internal/own"
)

const us types.UID = "us"

var webKey = key{desired.ID{Kind: desired.KindDeployment, Name: "web"}, "shop"}

func newMemory() *memory { return &memory{owners: map[types.UID]map[key]*entry{}} }

func newClock() *clocktesting.FakePassiveClock {
	return clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
}

// seen is a Deployment at a moment of its life.
func seen(uid types.UID, resourceVersion string, generation int64) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: uid, ResourceVersion: resourceVersion, Generation: generation}}
}

// wish is a configuration; another image makes it another wish.
func wish(t *testing.T, image string) *desired.Config {
	t.Helper()
	owner := desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: us}
	config, err := component(t, owner, "{image: "+image+"}").Children[0].Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestUnseen names what lists of the cache may lack: until the cache has it, or saw it go.
func TestUnseen(t *testing.T) {
	now := newClock().Now()
	cases := map[string]struct {
		then func(*memory)
		want int
	}{
		"written":                      {func(*memory) {}, 1},
		"looked for in vain":           {func(m *memory) { m.newest(webKey, us, nil, now) }, 1},
		"looked for and found":         {func(m *memory) { m.newest(webKey, us, seen("a", "100", 1), now) }, 0},
		"looked for in vain for long":  {func(m *memory) { m.newest(webKey, us, nil, now.Add(patience+time.Second)) }, 0},
		"seen going":                   {func(m *memory) { m.gone(webKey, us, "a") }, 0},
		"another of its name is going": {func(m *memory) { m.gone(webKey, us, "b") }, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.remember(webKey, us, wish(t, "nginx"), seen("a", "100", 1), projection{}, now)
			tc.then(m)
			if got := m.unseen(us); len(got) != tc.want || tc.want == 1 && got[0] != webKey.ID {
				t.Errorf("unseen: %v, want %d", got, tc.want)
			}
		})
	}
}

// TestNewest holds the answer to a write against what the cache says later.
func TestNewest(t *testing.T) {
	answer := seen("a", "100", 1)
	cases := map[string]struct {
		cached client.Object
		later  time.Duration
		want   client.Object
	}{
		"the cache has nothing yet":             {cached: nil, want: answer},
		"the cache has an older state":          {cached: seen("a", "99", 1), want: answer},
		"older as a number, not as a text":      {cached: seen("a", "9", 1), want: answer},
		"the cache has the same":                {cached: seen("a", "100", 1), want: seen("a", "100", 1)},
		"the cache has a newer state":           {cached: seen("a", "101", 2), want: seen("a", "101", 2)},
		"the cache has a successor":             {cached: seen("b", "105", 1), want: seen("b", "105", 1)},
		"the cache has its predecessor":         {cached: seen("z", "50", 1), want: answer},
		"the cache has nothing for a long time": {cached: nil, later: patience + time.Second, want: nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, clock := newMemory(), newClock()
			m.remember(webKey, us, wish(t, "nginx"), answer, projection{}, clock.Now())
			clock.SetTime(clock.Now().Add(tc.later))
			got := m.newest(webKey, us, tc.cached, clock.Now())
			if (got == nil) != (tc.want == nil) || got != nil && (got.GetUID() != tc.want.GetUID() || got.GetResourceVersion() != tc.want.GetResourceVersion()) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNewestForgets sees the cache catch up once: an answer is not believed again when
// the object is gone afterwards.
func TestNewestForgets(t *testing.T) {
	m, clock := newMemory(), newClock()
	m.remember(webKey, us, wish(t, "nginx"), seen("a", "100", 1), projection{}, clock.Now())
	m.newest(webKey, us, seen("a", "100", 1), clock.Now())
	if got := m.newest(webKey, us, nil, clock.Now()); got != nil {
		t.Errorf("a deleted object is still there: %v", got)
	}
}

func TestGone(t *testing.T) {
	m, clock := newMemory(), newClock()
	m.remember(webKey, us, wish(t, "nginx"), seen("a", "100", 1), projection{}, clock.Now())
	m.gone(webKey, us, "z")
	if m.newest(webKey, us, nil, clock.Now()) == nil {
		t.Error("the end of its predecessor took the object with it")
	}
	m.gone(webKey, us, "a")
	if m.newest(webKey, us, nil, clock.Now()) != nil {
		t.Error("the object was seen to go and is still there")
	}
	if !m.wasOurs(webKey, us) {
		t.Error("what is created again must count as a repair")
	}
}

func TestKnows(t *testing.T) {
	m, clock := newMemory(), newClock()
	m.remember(webKey, us, wish(t, "nginx"), seen("a", "100", 3), projection{fields: "digest"}, clock.Now())
	cases := map[string]struct {
		image                string
		live                 client.Object
		wantAll, wantButMeta bool
		wantProjected        string
	}{
		"the same":                    {"nginx", seen("a", "100", 3), true, true, "digest"},
		"a label or the status moved": {"nginx", seen("a", "101", 3), false, true, "digest"},
		"the spec moved":              {"nginx", seen("a", "101", 4), false, false, "digest"},
		"another wish":                {"httpd", seen("a", "100", 3), false, false, ""},
		"another object":              {"nginx", seen("b", "100", 3), false, false, ""},
		"a kind without a generation": {"nginx", seen("a", "101", 0), false, false, "digest"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all, butMeta, projected := m.knows(webKey, us, wish(t, tc.image), tc.live)
			if all != tc.wantAll || butMeta != tc.wantButMeta || projected.fields != tc.wantProjected {
				t.Errorf("got %t %t %q", all, butMeta, projected.fields)
			}
		})
	}
	if !m.wished(webKey, us, wish(t, "nginx"), seen("a", "105", 5)) || m.wished(webKey, us, wish(t, "httpd"), seen("a", "105", 5)) ||
		m.wished(webKey, us, wish(t, "nginx"), seen("b", "105", 5)) {
		t.Error("a wish is that of one object")
	}
}

// TestMayRepair fights for half a minute: a burst, then one a second, one piece of news.
func TestMayRepair(t *testing.T) {
	m, clock := newMemory(), newClock()
	start, repairs, news := clock.Now(), 0, 0
	for clock.Now().Before(start.Add(30 * time.Second)) {
		wait, isNews := m.mayRepair(webKey, us, clock.Now())
		if isNews {
			news++
		}
		if wait == 0 {
			repairs++
		}
		if wait > time.Second+time.Millisecond {
			t.Fatalf("held back for %s", wait)
		}
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
	}
	if repairs < 33 || repairs > 35 || news != 1 {
		t.Errorf("%d repairs and %d pieces of news in 30 s", repairs, news)
	}
	if left := m.contested(webKey, us, clock.Now()); left < 4*time.Second || left > 5*time.Second+time.Millisecond {
		t.Errorf("peace in %s", left)
	}
	// As long as one waits as long as one was told, one may.
	if wait, _ := m.mayRepair(webKey, us, clock.Now()); wait > 0 {
		clock.SetTime(clock.Now().Add(wait))
		if wait, _ := m.mayRepair(webKey, us, clock.Now()); wait > 0 {
			t.Errorf("held back again for %s", wait)
		}
	}
	// After a rest it is over, and the next fight is news again.
	clock.SetTime(clock.Now().Add(m.contested(webKey, us, clock.Now())))
	if left := m.contested(webKey, us, clock.Now()); left != 0 {
		t.Errorf("peace in %s", left)
	}
	for range repairBurst {
		if wait, isNews := m.mayRepair(webKey, us, clock.Now()); wait > 0 || isNews {
			t.Fatalf("the burst is over too soon: %s, news: %t", wait, isNews)
		}
	}
	if wait, isNews := m.mayRepair(webKey, us, clock.Now()); wait == 0 || !isNews {
		t.Errorf("the second fight: %s, news: %t", wait, isNews)
	}
	other := webKey
	other.Name = "other"
	if wait, _ := m.mayRepair(other, us, clock.Now()); wait > 0 {
		t.Error("one child is held back for another")
	}
}

func TestForget(t *testing.T) {
	m, clock := newMemory(), newClock()
	m.remember(webKey, us, wish(t, "nginx"), seen("a", "100", 1), projection{}, clock.Now())
	m.setForeign(webKey, "others", &own.NameConflict{}, clock.Now())
	m.forget(us)
	if taken, fresh := m.isForeign(webKey, "others", clock.Now()); len(m.owners) != 1 || m.wasOurs(webKey, us) || taken == nil || !fresh {
		t.Errorf("left: %v", m.owners)
	}
	if taken, fresh := m.isForeign(webKey, "others", clock.Now().Add(10*time.Second)); taken == nil || fresh {
		t.Error("whose a name is must be asked again after a while")
	}
	m.setForeign(webKey, "others", &own.NameConflict{Refused: true}, clock.Now())
	if _, fresh := m.isForeign(webKey, "others", clock.Now()); fresh {
		t.Error("an edit of the spec may end a refusal at any time")
	}
	m.remember(webKey, "others", wish(t, "nginx"), seen("a", "100", 1), projection{}, clock.Now())
	if taken, _ := m.isForeign(webKey, "others", clock.Now()); taken != nil {
		t.Error("what we could write is not somebody else's")
	}
}

// A write whose answer was lost may have moved the pods: what the status said before it is
// no answer to it.
func TestAskedAfterALostAnswer(t *testing.T) {
	m := memory{owners: map[types.UID]map[key]*entry{}}
	k := key{desired.ID{Kind: desired.KindDeployment, Name: "web"}, "shop"}
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	if got := m.asked(k, "owner", nil, before); got != 1 {
		t.Fatalf("asked in generation %d, want 1", got)
	}
	m.unsure(k, "owner")
	// A write that is refused because the object has changed tells nothing about that change.
	if got := m.asked(k, "owner", nil, nil); got != 0 {
		t.Errorf("asked in generation %d, want that this is not known", got)
	}
	after := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	if got := m.asked(k, "owner", after, after); got != 2 {
		t.Errorf("asked in generation %d, want the one that is seen next, 2", got)
	}
}
