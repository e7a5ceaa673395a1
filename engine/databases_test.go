package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/database"
)

// desk is where databases are asked, with servers that answer when the test lets them.
func newDesk(t *testing.T) (d *databases, asked chan database.Database, answer chan error, woken chan types.NamespacedName) {
	t.Helper()
	asked, answer, woken = make(chan database.Database, 4*visitsAt), make(chan error, 4*visitsAt), make(chan types.NamespacedName, 4*visitsAt)
	d = newDatabases(&database.Keeper{}, func(app types.NamespacedName) { woken <- app })
	d.visit = func(_ context.Context, db database.Database) (database.State, error) {
		asked <- db
		return database.State{Rotating: true}, <-answer
	}
	return d, asked, answer, woken
}

func TestDatabasesAreAskedApart(t *testing.T) {
	d, asked, answer, woken := newDesk(t)
	shop := visited{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	one := question{pod: "1", versions: "1"}
	now := time.Now()
	if _, ok := d.ask(shop, one, database.Database{}, now); ok {
		t.Error("there is an answer before anybody was asked")
	}
	<-asked
	d.ask(shop, one, database.Database{}, now) // it is being asked
	answer <- nil
	if app := <-woken; app != shop.app {
		t.Errorf("%s is woken", app)
	}
	if v, ok := d.ask(shop, one, database.Database{}, now); !ok || v.err != nil || !v.state.Rotating {
		t.Errorf("got %+v, %v", v, ok)
	}
	if len(asked) > 0 {
		t.Error("it is asked again although nothing has changed")
	}
	// Another question is asked, and the answer of the same server still counts.
	other := one
	other.versions = "2"
	if _, ok := d.ask(shop, other, database.Database{}, now); !ok {
		t.Error("a server is forgotten because a Secret has changed")
	}
	<-asked
	answer <- errors.New("no")
	<-woken
	if v, ok := d.ask(shop, other, database.Database{}, now); !ok || v.err == nil {
		t.Errorf("got %+v, %v", v, ok)
	}
	// What failed is tried again soon, and another server is another one.
	d.ask(shop, other, database.Database{}, now.Add(2*retryFirst))
	<-asked
	answer <- nil
	<-woken
	other.pod = "2"
	if _, ok := d.ask(shop, other, database.Database{}, now); ok {
		t.Error("the answer of another server counts")
	}
	<-asked
	answer <- nil
	<-woken
	d.forget(shop.app)
	if len(d.known) > 0 {
		t.Error("it is not forgotten")
	}
}

// What failed is tried again soon, and then less and less often; another server begins anew.
func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, answer, woken := newDesk(t)
		shop := visited{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
		q := question{pod: "1"}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 40, 40, 1, 2} {
			if i == 8 {
				q.pod = "2"
			}
			answer <- errors.New("no")
			d.ask(shop, q, database.Database{}, time.Now())
			<-woken
			v, _ := d.ask(shop, q, database.Database{}, time.Now())
			wait := time.Until(v.again)
			if want *= time.Second; wait < want || wait > want+want/5 {
				t.Errorf("after failure %d it is tried again in %s, want %s and at most a fifth more", i+1, wait, want)
			}
			time.Sleep(wait)
		}
	})
}

// What a visit has written itself is no reason for another one; what somebody else does to it is.
func TestOwnBindingIsNoQuestion(t *testing.T) {
	v := &visit{asked: question{pod: "1"}, state: database.State{Binding: "7"}}
	for _, cached := range []struct {
		binding string
		want    bool
	}{{"", true}, {"7", true}, {"7", true}, {"", false}, {"8", false}} { // not seen yet, seen, deleted, edited
		if got := v.answers(question{pod: "1", binding: cached.binding}); got != cached.want {
			t.Errorf("with the binding in version %q it is answered: %t, want %t", cached.binding, got, cached.want)
		}
	}
	failed := &visit{asked: question{pod: "1", binding: "7"}}
	if failed.answers(question{pod: "1"}) {
		t.Error("a visit that has written nothing answers for a binding that is gone")
	}
}

// A binding that somebody has deleted before the cache knew it is written again, and not waited for.
func TestBindingIsLost(t *testing.T) {
	begun := time.Now()
	v := &visit{asked: question{pod: "1"}, begun: begun, state: database.State{Binding: "7"}}
	for _, tc := range []struct {
		cached string
		after  time.Duration
		want   bool
	}{{"", moment, false}, {"", lostAfter, true}, {"7", lostAfter, false}, {"8", lostAfter, false}} {
		if got := v.lost(question{pod: "1", binding: tc.cached}, begun.Add(tc.after)); got != tc.want {
			t.Errorf("version %q in the cache after %s: lost %t, want %t", tc.cached, tc.after, got, tc.want)
		}
	}
}

// However many hang, nobody who asks waits.
func TestHangingDatabasesKeepNobody(t *testing.T) {
	d, _, answer, woken := newDesk(t)
	begun := time.Now()
	for i := range 3 * visitsAt {
		d.ask(visited{types.NamespacedName{Name: "shop"}, string(rune('a' + i))}, question{pod: "1"}, database.Database{}, begun)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("asking took %s", took)
	}
	for range 3 * visitsAt {
		answer <- nil
	}
	for range 3 * visitsAt {
		<-woken
	}
}

// A database that was well is felt now and then, and whoever it belongs to is woken when it no longer is.
func TestPulse(t *testing.T) {
	d, asked, answer, woken := newDesk(t)
	beats := make(chan error)
	d.every, d.pulse = time.Millisecond, func(context.Context, database.Database, database.State) error { return <-beats }
	shop := visited{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	one := question{pod: "1"}
	d.ask(shop, one, database.Database{}, time.Now())
	<-asked
	answer <- nil
	<-woken
	for range 3 {
		beats <- nil
	}
	if len(woken) > 0 {
		t.Error("somebody was woken although all is well")
	}
	beats <- errors.New("too many connections")
	<-woken
	d.ask(shop, one, database.Database{}, time.Now())
	<-asked // it is visited at once
	answer <- errors.New("too many connections")
	<-woken
	select {
	case beats <- nil:
		t.Error("a database that is not well is felt, where it is to be visited")
	case <-time.After(50 * time.Millisecond):
	}
}

// Only one pulse is taken, however often a database is visited.
func TestOnePulse(t *testing.T) {
	d, asked, answer, woken := newDesk(t)
	beats := make(chan struct{}, 100)
	d.every, d.pulse = 50*time.Millisecond, func(context.Context, database.Database, database.State) error {
		beats <- struct{}{}
		return nil
	}
	shop := visited{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	for i := range 20 {
		d.ask(shop, question{pod: "1", wants: fmt.Sprint(i)}, database.Database{}, time.Now())
		<-asked
		answer <- nil
		<-woken
	}
	time.Sleep(300 * time.Millisecond)
	if n := len(beats); n == 0 || n > 6 {
		t.Errorf("%d pulses in 300 ms, with one every 50", n)
	}
}
