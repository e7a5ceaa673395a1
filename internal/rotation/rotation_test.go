package rotation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is a server, the stored passwords and the clients. It is the only state that survives a
// crash.
type world struct {
	server                  []string // accepted passwords
	password                string
	pending                 string
	declared                string
	due                     bool
	bound                   string
	clients                 []string // the password that each client was started with
	singlePassword, unbound bool
	generated               int
}

func (w *world) account() Account {
	a := Account{
		Password: w.password, Pending: w.pending, Declared: w.declared, Due: w.due, SinglePassword: w.singlePassword,
		PasswordAccepted: slices.Contains(w.server, w.password), PendingAccepted: w.pending != "" && slices.Contains(w.server, w.pending),
	}
	if !w.unbound {
		a.Bound, a.ConsumersRolledOut = w.bound, !slices.ContainsFunc(w.clients, func(c string) bool { return c != w.bound })
	}
	return a
}

// apply executes one step, which is one write.
func (w *world) apply(s Step) {
	switch s {
	case StorePending:
		if w.pending = w.declared; w.pending == "" {
			w.generated++
			w.pending = fmt.Sprintf("generated %d", w.generated)
		}
		w.due = false
	case AcceptBoth:
		w.server = []string{w.password, w.pending}
	case UpdateBinding:
		w.bound = w.account().Target()
	case AcceptOne:
		w.server = []string{w.account().Target()}
	case PromotePending:
		if w.password == w.pending {
			w.server = []string{w.pending}
		}
		w.password, w.pending = w.pending, ""
	case SwapPasswords:
		w.password, w.pending = w.pending, w.password
	case Done, AwaitConsumers:
	}
}

// rollOneConsumer restarts one client.
func (w *world) rollOneConsumer() {
	if i := slices.IndexFunc(w.clients, func(c string) bool { return c != w.bound }); i >= 0 {
		w.clients[i] = w.bound
	}
}

func (w *world) check(t *testing.T, trace []Step) {
	t.Helper()
	if !slices.Contains(w.server, w.password) && !slices.Contains(w.server, w.pending) {
		t.Fatalf("%v: no stored password is valid: %+v", trace, w)
	}
	if len(w.server) > 2 || w.singlePassword && len(w.server) > 1 {
		t.Fatalf("%v: the server has %v", trace, w.server)
	}
	for _, c := range w.clients {
		if !w.singlePassword && !w.unbound && !slices.Contains(w.server, c) {
			t.Fatalf("%v: a client is disconnected: %+v", trace, w)
		}
	}
}

// TestRandomRotationsKeepClientsConnected rolls clients and changes the declared password at
// random: no client is ever disconnected, a stored password is always valid, and every rotation
// ends with one password.
func TestRandomRotationsKeepClientsConnected(t *testing.T) {
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := &world{server: []string{"first"}, password: "first", bound: "first", singlePassword: rng.IntN(5) == 0, unbound: rng.IntN(4) == 0}
		for range rng.IntN(4) {
			w.clients = append(w.clients, "first")
		}
		declared := rng.IntN(2) == 0
		if declared {
			w.declared = "first"
		}
		var trace []Step
		for i := range 400 {
			if i < 40 && rng.IntN(5) == 0 {
				if w.due = !declared; declared {
					w.declared = fmt.Sprintf("declared %d", rng.IntN(4))
				}
			}
			if rng.IntN(3) == 0 {
				w.rollOneConsumer()
			}
			s := Next(w.account())
			trace = append(trace, s)
			w.apply(s)
			w.check(t, trace)
		}
		if s := Next(w.account()); s != Done {
			t.Fatalf("seed %d does not complete: %v, %+v", seed, trace[len(trace)-10:], w)
		}
		if want := w.account().Target(); len(w.server) != 1 || w.server[0] != want || declared && want != w.declared || !w.unbound && w.bound != want {
			t.Fatalf("seed %d ends with %+v", seed, w)
		}
	}
}

// TestStoredPasswordOverridesServer checks that a password that was changed in the server is
// replaced by the stored one.
func TestStoredPasswordOverridesServer(t *testing.T) {
	for _, pending := range []string{"", "next"} {
		w := &world{server: []string{"by hand"}, password: "stored", pending: pending, bound: "stored", clients: []string{"stored"}}
		for range 20 {
			w.apply(Next(w.account()))
			w.rollOneConsumer()
		}
		if want := w.account().Target(); Next(w.account()) != Done || !slices.Equal(w.server, []string{want}) || w.bound != want {
			t.Errorf("with pending %q it ends with %+v", pending, w)
		}
	}
}

// TestNewPasswordStoredEarly checks that storing the new password as the current one during a
// rotation neither disconnects clients nor blocks the rotation.
func TestNewPasswordStoredEarly(t *testing.T) {
	for _, declared := range []string{"", "new", "old"} {
		w := &world{server: []string{"old", "new"}, password: "new", pending: "new", declared: declared, bound: "old", clients: []string{"old", "old"}}
		var trace []Step
		for range 40 {
			s := Next(w.account())
			trace = append(trace, s)
			w.apply(s)
			w.check(t, trace)
			w.rollOneConsumer()
		}
		if want := w.account().Target(); Next(w.account()) != Done || !slices.Equal(w.server, []string{want}) || declared != "" && want != declared {
			t.Errorf("declared %q: %v ends with %+v", declared, trace, w)
		}
	}
}

func TestStepOrder(t *testing.T) {
	w := &world{server: []string{"a"}, password: "a", declared: "b", bound: "a", clients: []string{"a", "a"}}
	var got []Step
	for range 12 {
		s := Next(w.account())
		if s == Done {
			break
		}
		if len(got) == 0 || got[len(got)-1] != s {
			got = append(got, s)
		}
		w.apply(s)
		w.rollOneConsumer()
	}
	if want := []Step{StorePending, AcceptBoth, UpdateBinding, AwaitConsumers, AcceptOne, PromotePending}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
