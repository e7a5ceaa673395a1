package engine

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// How often servers are asked although nothing happened, and how many of them at the same time. A
// visit that gets no answer takes up to half a minute of nobody but its own database. Between two visits
// there are pulses, which cost no more than a login: somebody may take all connections.
const (
	visitAgain  = 10 * time.Minute
	retryFirst  = time.Second
	retryMost   = 40 * time.Second
	lostAfter   = 5 * time.Second
	visitWithin = 30 * time.Second
	visitsAt    = 64
	pulseEvery  = time.Minute
	// moment is how long it may take until a server has answered and the cache knows what was written then: before that, nobody is
	// told that it is being asked. An operator that has just started asks every one, and nothing has happened to any of them.
	moment = time.Second
)

// databases asks servers what only they know. A pass never waits for one: it takes the last answer,
// and is woken when there is another.
type databases struct {
	visit func(context.Context, database.Database) (database.State, error)
	pulse func(context.Context, database.Database, database.State) error
	every time.Duration
	wake  func(types.NamespacedName)
	slots chan struct{}

	mu    sync.Mutex
	known map[types.NamespacedName]map[string]*visit // by application and component
}

// visited is a database.
type visited struct {
	app       types.NamespacedName
	component string
}

// question is everything that an answer goes by. An answer to another question still counts
// if it is of the same server, at the same address: that does not stop letting people in because a password is on
// its way to another one.
type question struct {
	// pod and since say which start of which server it is, and host where others reach it.
	pod   types.UID
	since time.Time
	host  string
	// set is what the binding belongs to.
	set types.UID
	// versions are those of the Secrets that a visit reads, binding that of the one that it writes.
	versions, binding string
	// wants is what the spec says of it, rolled whether all know the password.
	wants  string
	rolled bool
	// told is the version of the binding that all know.
	told string
}

// sameServer says whether both are about the same start of the same server, at the same address.
func (q question) sameServer(other question) bool {
	return q.pod == other.pod && q.since.Equal(other.since) && q.host == other.host
}

// visit is what is known of a database.
type visit struct {
	// number tells a visit from the one before.
	number   int
	asked    question
	begun    time.Time
	answered bool
	running  bool
	state    database.State
	err      error
	again    time.Time
	// failed is how many visits in a row were not what they have to be.
	failed int
}

func newDatabases(keeper *database.Keeper, wake func(types.NamespacedName)) *databases {
	return &databases{visit: keeper.Visit, pulse: keeper.Pulse, every: pulseEvery, wake: wake, slots: make(chan struct{}, visitsAt), known: map[types.NamespacedName]map[string]*visit{}}
}

// ask returns what is known of a database, and has it asked if that is old. answered is false when
// nothing is known of this server.
func (d *databases) ask(who visited, q question, db database.Database, now time.Time) (answer visit, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.known[who.app][who.component]
	if v == nil {
		v = &visit{}
		if d.known[who.app] == nil {
			d.known[who.app] = map[string]*visit{}
		}
		d.known[who.app][who.component] = v
	}
	if !v.running && (!v.answers(q) || !now.Before(v.again) || v.lost(q, now)) {
		v.running, v.begun = true, now
		go d.send(who, v, q, db)
	}
	answer = *v
	if v.running {
		answer.again = time.Time{} // whoever asks is woken
	}
	return answer, v.answered && v.asked.sameServer(q)
}

// answers says whether a question was answered. What the visit itself has written is no new one, once the cache shows it.
func (v *visit) answers(q question) bool {
	if q.binding != "" && q.binding == v.state.Binding {
		v.asked.binding = q.binding
	}
	return v.asked == q
}

// lost says whether a binding that the visit has written does not come: somebody has deleted it before the cache knew it.
func (v *visit) lost(q question, now time.Time) bool {
	return older(q.binding, v.state.Binding) && !now.Before(v.begun.Add(lostAfter))
}

// send visits a database.
func (d *databases) send(who visited, v *visit, q question, db database.Database) {
	var state database.State
	var err error
	d.bounded(func(ctx context.Context) { state, err = d.visit(ctx, db) })
	d.mu.Lock()
	v.number++
	if !v.asked.sameServer(q) {
		v.failed = 0 // a server pays for its own failures only
	}
	v.asked, v.answered, v.running, v.state, v.err = q, true, false, state, err
	if err != nil || state.Full {
		wait := min(retryFirst<<min(v.failed, 8), retryMost)
		v.failed++
		v.again = time.Now().Add(wait + rand.N(wait/5))
	} else {
		v.failed = 0
		v.again = time.Now().Add(visitAgain + rand.N(visitAgain/5))
		if next := state.NextRotation; next.After(time.Now()) && next.Before(v.again) {
			v.again = next
		}
		d.feelLater(who, v.number, db, state)
	}
	d.mu.Unlock()
	d.wake(who.app)
}

// bounded does something with a server, in its turn and within its time.
func (d *databases) bounded(do func(context.Context)) {
	d.slots <- struct{}{}
	defer func() { <-d.slots }()
	ctx, cancel := context.WithTimeout(context.Background(), visitWithin)
	defer cancel()
	do(ctx)
}

func (d *databases) feelLater(who visited, number int, db database.Database, state database.State) {
	time.AfterFunc(d.every+rand.N(d.every/5+1), func() { d.feel(who, number, db, state) })
}

// feel takes the pulse of a database that a visit has found well. As long as it beats, nobody is woken;
// and when somebody has visited it since, that is newer.
func (d *databases) feel(who visited, number int, db database.Database, state database.State) {
	if d.at(who, number) == nil {
		return
	}
	var err error
	d.bounded(func(ctx context.Context) { err = d.pulse(ctx, db, state) })
	v := d.at(who, number)
	switch {
	case v == nil:
	case err == nil:
		d.feelLater(who, number, db, state)
	default:
		d.mu.Lock()
		v.again = time.Time{}
		d.mu.Unlock()
		d.wake(who.app)
	}
}

// at is what is known of a database, if that is still of a visit.
func (d *databases) at(who visited, number int) *visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.known[who.app][who.component]; v != nil && v.number == number && !v.running {
		return v
	}
	return nil
}

// silence stops asking a server that is not there any more: its address may be somebody else's by now.
func (d *databases) silence(who visited) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.known[who.app][who.component]; v != nil {
		v.number++
	}
}

// rotating says whether a password was on its way to another one when a database was last visited.
func (d *databases) rotating(who visited) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.known[who.app][who.component]
	return v != nil && v.state.Rotating
}

// keep forgets the databases that an application no longer has.
func (d *databases) keep(app types.NamespacedName, components []desired.Component) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.known[app], func(component string, _ *visit) bool {
		return !slices.ContainsFunc(components, func(c desired.Component) bool { return c.Database != nil && c.Name == component })
	})
}

// forget is for an application that is gone.
func (d *databases) forget(app types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, app)
}
