package database

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/rotation"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
)

var runs = flag.Int("rotations", 12, "how many rotations are killed on their way, with each version of the server")

// killed is what a visitor dies of.
type killed struct{ step rotation.Step }

// die makes a visit that ends after so many steps, and says whether it came that far.
func (h *house) die(after int) (died bool) {
	h.Helper()
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(killed); !ok {
				panic(e)
			}
			died = true
		}
	}()
	n := 0
	_, err := h.keeper(func(s rotation.Step) {
		if n++; n > after {
			panic(killed{s})
		}
	}).Visit(h.Context(), h.d)
	h.must(err)
	return false
}

// Whoever is killed after any step leaves passwords behind that open the database, and whoever
// comes next ends with exactly one.
func TestRotationKilledAnywhere(t *testing.T) {
	c := plane(t)
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t, c, version, "killed-"+strings.ReplaceAll(version, ".", "-"))
			h.visit()
			h.someOpen("before")
			r := rand.New(rand.NewPCG(uint64(*runs), 7))
			deaths := 0
			for i := range *runs {
				former := h.secret(h.d.Secret)
				h.declare(r, i)
				for rotating := true; rotating; rotating = h.rotating() {
					for h.die(r.IntN(2)) {
						deaths++
						h.someOpen(fmt.Sprintf("rotation %d, killed %d times by now", i, deaths))
						if r.IntN(2) == 0 {
							h.roll()
						}
					}
					h.roll()
				}
				h.visit()
				h.ended(former, i)
			}
			t.Logf("%d rotations, killed %d times", *runs, deaths)
		})
	}
}

// declare asks for other passwords, in one of the ways.
func (h *house) declare(r *rand.Rand, i int) {
	h.Helper()
	if i%3 == 0 {
		h.d.Root.Value, h.d.User.Value = "", ""
		h.d.Rotation.RequestedAt = fmt.Sprint(i)
		return
	}
	h.d.Root.Value, h.d.User.Value = oddPassword(r), oddPassword(r)
}

// oddPassword is of the kind that breaks what quotes it.
func oddPassword(r *rand.Rand) string {
	const odd = "'\"`\\$!%_;#-@:/?& {}[]()<>|*~^+=,.abcXYZ019äß€漢"
	letters := []rune(odd)
	var b strings.Builder
	for range 8 + r.IntN(24) {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// ended fails unless each account has exactly one password, which is another one.
func (h *house) ended(former map[string]string, i int) {
	h.Helper()
	stored := h.secret(h.d.Secret)
	for key, a := range map[string]struct{ user, want string }{mariadb.KeyRootPassword: {session.Root, h.d.Root.Value}, mariadb.KeyPassword: {h.d.Schema, h.d.User.Value}} {
		if stored[pendingPrefix+key] != "" || stored[key] == former[key] || a.want != "" && stored[key] != a.want {
			h.Fatalf("rotation %d: %s has not ended", i, key)
		}
		if !h.opens(a.user, stored[key]) || h.opens(a.user, former[key]) {
			h.Fatalf("rotation %d: %s is not the one password of %s", i, key, a.user)
		}
		if stored[mariadb.HashKey(key)] != mariadb.Hash(stored[key]) {
			h.Fatalf("rotation %d: pods are shown the hash of another %s", i, key)
		}
	}
	if h.secret(h.d.Binding)[bindingPassword] != stored[mariadb.KeyPassword] {
		h.Fatalf("rotation %d: the binding says something else", i)
	}
}

// A volume from before has root alone: the account and its schema are made.
func TestAccountIsMade(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "made")
	state := h.visit()
	if state.Version.Series() != "11.8" || state.Rotating {
		t.Errorf("got %+v", state)
	}
	if h.roll(); state.Binding != h.d.Known || h.visit().Binding != h.d.Known {
		t.Errorf("the binding is of version %s, and who made it says %s", h.d.Known, state.Binding)
	}
	binding := h.secret(h.d.Binding)
	want := map[string]string{
		"type": "mysql", "provider": "mariadb", "host": "made.default.svc", "port": "3306", "username": "shop", "database": "shop",
		"password": "the first one", "uri": "mysql://shop:the%20first%20one@made.default.svc:3306/shop",
	}
	if !maps.Equal(binding, want) {
		t.Errorf("the binding says %v", binding)
	}
	h.someOpen("made")
}

// Who waits for users to roll goes no further, and says so.
func TestAwaitsThoseWhoUseIt(t *testing.T) {
	h := newHouse(t, plane(t), "10.11", "awaits")
	h.visit()
	h.roll()
	h.d.User.Value = "the next one"
	if state := h.visit(); !state.Rotating {
		t.Error("it does not say that it rotates")
	}
	for _, password := range []string{"the first one", "the next one"} {
		if !h.opens("shop", password) {
			t.Errorf("%q does not open while some know only that", password)
		}
	}
	h.d.User.Value = "the first one" // somebody has changed their mind
	for h.visit().Rotating {
		h.roll()
	}
	if h.opens("shop", "the next one") || !h.opens("shop", "the first one") || h.secret(h.d.Binding)["password"] != "the first one" {
		t.Error("the former password is not back")
	}
}

// What is generated is replaced when its time has come; what is declared is for others to replace.
func TestRotatesOnSchedule(t *testing.T) {
	h := newHouse(t, plane(t), "11.8", "scheduled")
	h.d.Rotation.EveryDays = new(int32(30))
	state := h.visit()
	if days := time.Until(state.NextRotation).Hours() / 24; days < 29 || days > 31 {
		t.Errorf("the next time is %s", state.NextRotation)
	}
	former := h.secret(h.d.Secret)
	h.clock = clocktesting.NewFakePassiveClock(time.Now().AddDate(0, 0, 31))
	for h.visit().Rotating {
		h.roll()
	}
	h.ended(former, 0)
	if state := h.visit(); !state.NextRotation.After(h.clock.Now()) {
		t.Errorf("it is due again: %s", state.NextRotation)
	}
	h.d.Root.Value, h.d.User.Value = h.secret(h.d.Secret)[mariadb.KeyRootPassword], h.secret(h.d.Secret)[mariadb.KeyPassword]
	if state := h.visit(); !state.NextRotation.IsZero() {
		t.Errorf("nothing is ours to replace, and it is due at %s", state.NextRotation)
	}
}

// counting is a client that knows how much was read and written through it.
type counting struct {
	client.Client
	reads  atomic.Int32 // some of them at once
	writes int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.reads.Add(1)
	return c.Client.Get(ctx, key, o, opts...)
}

func (c *counting) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	c.writes++
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c *counting) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	c.writes++
	return c.Client.Apply(ctx, o, opts...)
}

// Others wait for the first visit, and for the second as long as nobody has rolled: what is known is not asked for again.
func TestVisitAsksOnce(t *testing.T) {
	h := newHouse(t, plane(t), mariadbd.Versions[0], "once")
	counted := func(what string, reads, writes int) {
		t.Helper()
		c := &counting{Client: h.client}
		_, err := (&Keeper{Reader: c, Writer: c, Clock: h.clock}).Visit(t.Context(), h.d)
		h.must(err)
		if got := int(c.reads.Load()); got != reads || c.writes != writes {
			t.Errorf("%s took %d reads and %d writes, want %d and %d", what, got, c.writes, reads, writes)
		}
	}
	counted("the first visit", 3, 2) // the passwords, the binding and its owner; the binding, and what pods are shown
	counted("a visit that changes nothing", 2, 0)
	h.d.Rotation.RequestedAt = "now"
	counted("a rotation until somebody has to roll", 7, 3) // both remembered; root struck out; the binding
}

// meeting is a client whose first two reads wait for each other.
type meeting struct {
	client.Client
	came atomic.Int32
	both sync.WaitGroup
}

func (m *meeting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if m.came.Add(1) <= 2 {
		m.both.Done()
		met := make(chan struct{})
		go func() { m.both.Wait(); close(met) }()
		select {
		case <-met:
		case <-ctx.Done():
			return fmt.Errorf("read %s alone: %w", key, ctx.Err())
		}
	}
	return m.Client.Get(ctx, key, o, opts...)
}

// What is stored and what others are told is asked for at the same time: somebody waits, and may be far from the API server.
func TestVisitReadsAtOnce(t *testing.T) {
	h := newHouse(t, plane(t), mariadbd.Versions[0], "at-once")
	m := &meeting{Client: h.client}
	m.both.Add(2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := (&Keeper{Reader: m, Writer: h.client, Clock: h.clock}).Visit(ctx, h.d)
	h.must(err)
}
