package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/database"
)

// desk is where databases are asked, with servers that answer when the test lets them.
func newTestProber(t *testing.T) (d *databaseProber, probed chan database.Database, respond chan error, requeued chan types.NamespacedName) {
	t.Helper()
	probed, respond, requeued = make(chan database.Database, 4*maxConcurrentProbes), make(chan error, 4*maxConcurrentProbes), make(chan types.NamespacedName, 4*maxConcurrentProbes)
	d = newDatabaseProber(&database.Reconciler{}, clock.RealClock{}, func(app types.NamespacedName) { requeued <- app })
	d.start(t.Context())
	d.probeFunc = func(_ context.Context, db database.Database) (database.State, error) {
		probed <- db
		return database.State{Rotating: true}, <-respond
	}
	return d, probed, respond, requeued
}

func TestProbesRunInBackground(t *testing.T) {
	d, probed, respond, requeued := newTestProber(t)
	shop := databaseID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	key := probeKey{pod: "1", secretVersions: "1"}
	now := time.Now()
	if _, ok := d.latestProbe(shop, key, database.Database{}, now); ok {
		t.Error("there is an answer before anybody was asked")
	}
	<-probed
	d.latestProbe(shop, key, database.Database{}, now) // it is being asked
	respond <- nil
	if app := <-requeued; app != shop.app {
		t.Errorf("%s is woken", app)
	}
	if v, ok := d.latestProbe(shop, key, database.Database{}, now); !ok || v.err != nil || !v.state.Rotating {
		t.Errorf("got %+v, %v", v, ok)
	}
	if len(probed) > 0 {
		t.Error("it is asked again although nothing has changed")
	}
	// Another question is asked, and the answer of the same server still counts.
	changed := key
	changed.secretVersions = "2"
	if _, ok := d.latestProbe(shop, changed, database.Database{}, now); !ok {
		t.Error("a server is forgotten because a Secret has changed")
	}
	<-probed
	respond <- errors.New("no")
	<-requeued
	if v, ok := d.latestProbe(shop, changed, database.Database{}, now); !ok || v.err == nil {
		t.Errorf("got %+v, %v", v, ok)
	}
	// What failed is tried again soon, and another server is another one.
	d.latestProbe(shop, changed, database.Database{}, now.Add(2*initialProbeRetry))
	<-probed
	respond <- nil
	<-requeued
	changed.pod = "2"
	if _, ok := d.latestProbe(shop, changed, database.Database{}, now); ok {
		t.Error("the answer of another server counts")
	}
	<-probed
	respond <- nil
	<-requeued
	d.forget(shop.app)
	if len(d.probes) > 0 {
		t.Error("it is not forgotten")
	}
}

// What failed is tried again soon, and then less and less often; another server begins anew.
func TestFailedProbeIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, respond, requeued := newTestProber(t)
		shop := databaseID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
		key := probeKey{pod: "1"}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 40, 40, 1, 2} {
			if i == 8 {
				key.pod = "2"
			}
			respond <- errors.New("no")
			d.latestProbe(shop, key, database.Database{}, time.Now())
			<-requeued
			v, _ := d.latestProbe(shop, key, database.Database{}, time.Now())
			wait := time.Until(v.nextAt)
			if want *= time.Second; wait < want || wait > want+want/5 {
				t.Errorf("after failure %d it is tried again in %s, want %s and at most a fifth more", i+1, wait, want)
			}
			time.Sleep(wait)
		}
	})
}

// What a visit has written itself is no reason for another one; what somebody else does to it is.
func TestOwnBindingWriteDoesNotTriggerProbe(t *testing.T) {
	v := &probeState{key: probeKey{pod: "1"}, state: database.State{BindingVersion: "7"}}
	for _, cached := range []struct {
		binding string
		want    bool
	}{{"", true}, {"7", true}, {"7", true}, {"", false}, {"8", false}} { // not seen yet, seen, deleted, edited
		if got := v.matches(probeKey{pod: "1", bindingVersion: cached.binding}); got != cached.want {
			t.Errorf("with the binding in version %q it is answered: %t, want %t", cached.binding, got, cached.want)
		}
	}
	failed := &probeState{key: probeKey{pod: "1", bindingVersion: "7"}}
	if failed.matches(probeKey{pod: "1"}) {
		t.Error("a visit that has written nothing answers for a binding that is gone")
	}
}

// A binding that somebody has deleted before the cache knew it is written again, and not waited for.
func TestLostBindingIsDetected(t *testing.T) {
	startedAt := time.Now()
	v := &probeState{key: probeKey{pod: "1"}, startedAt: startedAt, state: database.State{BindingVersion: "7"}}
	for _, tc := range []struct {
		cached string
		after  time.Duration
		want   bool
	}{{"", probeGracePeriod, false}, {"", bindingLostAfter, true}, {"7", bindingLostAfter, false}, {"8", bindingLostAfter, false}} {
		if got := v.bindingLost(probeKey{pod: "1", bindingVersion: tc.cached}, startedAt.Add(tc.after)); got != tc.want {
			t.Errorf("version %q in the cache after %s: lost %t, want %t", tc.cached, tc.after, got, tc.want)
		}
	}
}

// However many hang, nobody who asks waits.
func TestHangingProbesDoNotBlockCallers(t *testing.T) {
	d, _, respond, requeued := newTestProber(t)
	start := time.Now()
	for i := range 3 * maxConcurrentProbes {
		d.latestProbe(databaseID{types.NamespacedName{Name: "shop"}, string(rune('a' + i))}, probeKey{pod: "1"}, database.Database{}, start)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("asking took %s", took)
	}
	for range 3 * maxConcurrentProbes {
		respond <- nil
	}
	for range 3 * maxConcurrentProbes {
		<-requeued
	}
}

// A database that was well is felt now and then, and whoever it belongs to is woken when it no longer is.
func TestFailedPingTriggersProbe(t *testing.T) {
	d, probed, respond, requeued := newTestProber(t)
	pings := make(chan error)
	d.pingInterval, d.pingFunc = time.Millisecond, func(context.Context, database.Database, database.State) error { return <-pings }
	shop := databaseID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	key := probeKey{pod: "1"}
	d.latestProbe(shop, key, database.Database{}, time.Now())
	<-probed
	respond <- nil
	<-requeued
	for range 3 {
		pings <- nil
	}
	if len(requeued) > 0 {
		t.Error("somebody was woken although all is well")
	}
	pings <- errors.New("too many connections")
	<-requeued
	d.latestProbe(shop, key, database.Database{}, time.Now())
	<-probed // it is visited at once
	respond <- errors.New("too many connections")
	<-requeued
	select {
	case pings <- nil:
		t.Error("a database that is not well is felt, where it is to be visited")
	case <-time.After(50 * time.Millisecond):
	}
}

// Only one pulse is taken, however often a database is visited.
func TestOnePingLoopPerDatabase(t *testing.T) {
	d, probed, respond, requeued := newTestProber(t)
	pings := make(chan struct{}, 100)
	d.pingInterval, d.pingFunc = 50*time.Millisecond, func(context.Context, database.Database, database.State) error {
		pings <- struct{}{}
		return nil
	}
	shop := databaseID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	for i := range 20 {
		d.latestProbe(shop, probeKey{pod: "1", spec: fmt.Sprint(i)}, database.Database{}, time.Now())
		<-probed
		respond <- nil
		<-requeued
	}
	time.Sleep(300 * time.Millisecond)
	if n := len(pings); n == 0 || n > 6 {
		t.Errorf("%d pulses in 300 ms, with one every 50", n)
	}
}

func TestProbesStopWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prober, _, _, requeued := newTestProber(t)
		ctx, stop := context.WithCancel(t.Context())
		prober.start(ctx)
		var probeErr error
		prober.probeFunc = func(ctx context.Context, _ database.Database) (database.State, error) {
			<-ctx.Done()
			probeErr = ctx.Err()
			return database.State{}, probeErr
		}
		prober.latestProbe(databaseID{component: "db"}, probeKey{pod: "1"}, database.Database{}, time.Now())
		synctest.Wait()
		start := time.Now()
		stop()
		synctest.Wait()
		if !errors.Is(probeErr, context.Canceled) || time.Since(start) > 0 || len(requeued) > 0 {
			t.Errorf("the probe ended with %v after %s and %d requests were queued, want that it is canceled at once", probeErr, time.Since(start), len(requeued))
		}
	})
}

func TestPingsFollowTheClock(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	requeued, pinged := make(chan types.NamespacedName, 8), make(chan struct{}, 8)
	prober := newDatabaseProber(&database.Reconciler{}, clk, func(app types.NamespacedName) { requeued <- app })
	prober.start(t.Context())
	prober.probeFunc = func(context.Context, database.Database) (database.State, error) { return database.State{}, nil }
	prober.pingFunc = func(context.Context, database.Database, database.State) error {
		pinged <- struct{}{}
		return errors.New("refused")
	}
	id, key := databaseID{component: "db"}, probeKey{pod: "1"}
	prober.latestProbe(id, key, database.Database{}, clk.Now())
	<-requeued
	if v, _ := prober.latestProbe(id, key, database.Database{}, clk.Now()); v.nextAt.Before(clk.Now().Add(probeInterval)) {
		t.Errorf("the next probe is at %s, want %s after %s", v.nextAt, probeInterval, clk.Now())
	}
	clk.Step(2 * pingInterval)
	<-pinged
	<-requeued // the ping failed: the application is reconciled
}
