package rotation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is a server, what is stored, and those who log in. Whoever goes on after a crash sees
// nothing else.
type world struct {
	server           []string // the passwords that it takes
	password         string
	pending          string
	wanted           string
	due              bool
	told             string
	clients          []string // the password that each was started with
	oneOnly, unbound bool
	made             int
}

func (w *world) account() Account {
	a := Account{
		Password: w.password, Pending: w.pending, Wanted: w.wanted, Due: w.due, OneOnly: w.oneOnly,
		Opens: slices.Contains(w.server, w.password), PendingOpens: w.pending != "" && slices.Contains(w.server, w.pending),
	}
	if !w.unbound {
		a.Told, a.Rolled = w.told, !slices.ContainsFunc(w.clients, func(c string) bool { return c != w.told })
	}
	return a
}

// do is one step; every one of them is one write.
func (w *world) do(s Step) {
	switch s {
	case Remember:
		if w.pending = w.wanted; w.pending == "" {
			w.made++
			w.pending = fmt.Sprintf("generated %d", w.made)
		}
		w.due = false
	case Both:
		w.server = []string{w.password, w.pending}
	case Bind:
		w.told = w.account().Final()
	case One:
		w.server = []string{w.account().Final()}
	case Forget:
		if w.password == w.pending {
			w.server = []string{w.pending}
		}
		w.password, w.pending = w.pending, ""
	case Turn:
		w.password, w.pending = w.pending, w.password
	case Rest, Await:
	}
}

// roll starts one client anew.
func (w *world) roll() {
	if i := slices.IndexFunc(w.clients, func(c string) bool { return c != w.told }); i >= 0 {
		w.clients[i] = w.told
	}
}

func (w *world) check(t *testing.T, trace []Step) {
	t.Helper()
	if !slices.Contains(w.server, w.password) && !slices.Contains(w.server, w.pending) {
		t.Fatalf("%v: no stored password opens it: %+v", trace, w)
	}
	if len(w.server) > 2 || w.oneOnly && len(w.server) > 1 {
		t.Fatalf("%v: the server has %v", trace, w.server)
	}
	for _, c := range w.clients {
		if !w.oneOnly && !w.unbound && !slices.Contains(w.server, c) {
			t.Fatalf("%v: a client is cut off: %+v", trace, w)
		}
	}
}

// A client that was just told rolls when it likes, people change their minds when they like, and
// nobody is ever cut off, nothing is ever locked, and it always ends with one password.
func TestNobodyIsCutOff(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{server: []string{"first"}, password: "first", told: "first", oneOnly: r.IntN(5) == 0, unbound: r.IntN(4) == 0}
		for range r.IntN(4) {
			w.clients = append(w.clients, "first")
		}
		declared := r.IntN(2) == 0
		if declared {
			w.wanted = "first"
		}
		var trace []Step
		for i := range 400 {
			if i < 40 && r.IntN(5) == 0 {
				if w.due = !declared; declared {
					w.wanted = fmt.Sprintf("declared %d", r.IntN(4))
				}
			}
			if r.IntN(3) == 0 {
				w.roll()
			}
			s := Next(w.account())
			trace = append(trace, s)
			w.do(s)
			w.check(t, trace)
		}
		if s := Next(w.account()); s != Rest {
			t.Fatalf("seed %d does not end: %v, %+v", seed, trace[len(trace)-10:], w)
		}
		if want := w.account().Final(); len(w.server) != 1 || w.server[0] != want || declared && want != w.wanted || !w.unbound && w.told != want {
			t.Fatalf("seed %d ends with %+v", seed, w)
		}
	}
}

// Somebody who changes the password in the server is put right: the stored one counts.
func TestStoredPasswordCounts(t *testing.T) {
	for _, pending := range []string{"", "next"} {
		w := &world{server: []string{"by hand"}, password: "stored", pending: pending, told: "stored", clients: []string{"stored"}}
		for range 20 {
			w.do(Next(w.account()))
			w.roll()
		}
		if want := w.account().Final(); Next(w.account()) != Rest || !slices.Equal(w.server, []string{want}) || w.told != want {
			t.Errorf("with pending %q it ends with %+v", pending, w)
		}
	}
}

// Somebody who stores the new password in the place of the old one, while both open, keeps nobody from rolling and
// nothing from ending.
func TestStoredEarly(t *testing.T) {
	for _, wanted := range []string{"", "new", "old"} {
		w := &world{server: []string{"old", "new"}, password: "new", pending: "new", wanted: wanted, told: "old", clients: []string{"old", "old"}}
		var trace []Step
		for range 40 {
			s := Next(w.account())
			trace = append(trace, s)
			w.do(s)
			w.check(t, trace)
			w.roll()
		}
		if want := w.account().Final(); Next(w.account()) != Rest || !slices.Equal(w.server, []string{want}) || wanted != "" && want != wanted {
			t.Errorf("wanted %q: %v ends with %+v", wanted, trace, w)
		}
	}
}

func TestSteps(t *testing.T) {
	w := &world{server: []string{"a"}, password: "a", wanted: "b", told: "a", clients: []string{"a", "a"}}
	var got []Step
	for range 12 {
		s := Next(w.account())
		if s == Rest {
			break
		}
		if len(got) == 0 || got[len(got)-1] != s {
			got = append(got, s)
		}
		w.do(s)
		w.roll()
	}
	if want := []Step{Remember, Both, Bind, Await, One, Forget}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
