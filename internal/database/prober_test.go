package database

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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// desk is a prober with servers that respond when the test allows it.
func newTestProber(t *testing.T) (d *Prober, probed chan Database, respond chan error, requeued chan types.NamespacedName) {
	t.Helper()
	probed, respond, requeued = make(chan Database, 4*MaxConcurrentProbes), make(chan error, 4*MaxConcurrentProbes), make(chan types.NamespacedName, 4*MaxConcurrentProbes)
	d = NewProber(&Reconciler{Keys: appsapi.DefaultKeys}, clock.RealClock{}, func(_ context.Context, app types.NamespacedName) { requeued <- app })
	d.Start(t.Context())
	d.probeFunc = func(_ context.Context, db Database) (State, error) {
		probed <- db
		return State{Rotating: true}, <-respond
	}
	return d, probed, respond, requeued
}

func TestProbesRunInBackground(t *testing.T) {
	d, probed, respond, requeued := newTestProber(t)
	shop := ID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	key := ProbeKey{Pod: "1", SecretVersions: "1"}
	now := time.Now()
	if _, ok := d.Latest(shop, key, Database{}, now); ok {
		t.Error("there is a result before the first probe")
	}
	<-probed
	d.Latest(shop, key, Database{}, now) // the probe is running
	respond <- nil
	if app := <-requeued; app != shop.App {
		t.Errorf("%s was requeued", app)
	}
	if v, ok := d.Latest(shop, key, Database{}, now); !ok || v.Err != nil || !v.State.Rotating {
		t.Errorf("got %+v, %v", v, ok)
	}
	if len(probed) > 0 {
		t.Error("it was probed again without a change")
	}
	// Another key starts another probe, and the result of the same server still counts.
	changed := key
	changed.SecretVersions = "2"
	if _, ok := d.Latest(shop, changed, Database{}, now); !ok {
		t.Error("a changed Secret drops the result of the server")
	}
	<-probed
	respond <- errors.New("no")
	<-requeued
	if v, ok := d.Latest(shop, changed, Database{}, now); !ok || v.Err == nil {
		t.Errorf("got %+v, %v", v, ok)
	}
	// A failed probe is retried soon, and another server has its own result.
	d.Latest(shop, changed, Database{}, now.Add(2*initialProbeRetry))
	<-probed
	respond <- nil
	<-requeued
	changed.Pod = "2"
	if _, ok := d.Latest(shop, changed, Database{}, now); ok {
		t.Error("the result of another server counts")
	}
	<-probed
	respond <- nil
	<-requeued
	d.Forget(shop.App)
	if len(d.probes) > 0 {
		t.Error("the result was not dropped")
	}
}

// TestFailedProbeIsRetriedWithBackoff checks that failed probes are retried with backoff, which
// restarts for another server.
func TestFailedProbeIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, respond, requeued := newTestProber(t)
		shop := ID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
		key := ProbeKey{Pod: "1"}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 40, 40, 1, 2} {
			if i == 8 {
				key.Pod = "2"
			}
			respond <- errors.New("no")
			d.Latest(shop, key, Database{}, time.Now())
			<-requeued
			v, _ := d.Latest(shop, key, Database{}, time.Now())
			wait := time.Until(v.NextAt)
			if want *= time.Second; wait < want || wait > want+want/5 {
				t.Errorf("after failure %d the retry is in %s, want %s and at most 20%% more", i+1, wait, want)
			}
			time.Sleep(wait)
		}
	})
}

// TestOwnBindingWriteDoesNotTriggerProbe checks that a binding written by the probe does not trigger
// another probe, but writes by others do.
func TestOwnBindingWriteDoesNotTriggerProbe(t *testing.T) {
	v := &Probe{Key: ProbeKey{Pod: "1"}, State: State{BindingVersion: "7"}}
	for _, cached := range []struct {
		binding string
		want    bool
	}{{"", true}, {"7", true}, {"7", true}, {"", false}, {"8", false}} { // not cached yet, cached, unchanged, deleted, edited
		if got := v.matches(ProbeKey{Pod: "1", BindingVersion: cached.binding}); got != cached.want {
			t.Errorf("binding version %q matches: %t, want %t", cached.binding, got, cached.want)
		}
	}
	failed := &Probe{Key: ProbeKey{Pod: "1", BindingVersion: "7"}}
	if failed.matches(ProbeKey{Pod: "1"}) {
		t.Error("the result of a probe without a write matches although the binding is gone")
	}
}

// TestLostBindingIsDetected checks that a binding that was deleted before the cache showed it is
// written again.
func TestLostBindingIsDetected(t *testing.T) {
	StartedAt := time.Now()
	v := &Probe{Key: ProbeKey{Pod: "1"}, StartedAt: StartedAt, State: State{BindingVersion: "7"}}
	for _, tc := range []struct {
		cached string
		after  time.Duration
		want   bool
	}{{"", ProbeGracePeriod, false}, {"", BindingLostAfter, true}, {"7", BindingLostAfter, false}, {"8", BindingLostAfter, false}} {
		if got := v.bindingLost(ProbeKey{Pod: "1", BindingVersion: tc.cached}, StartedAt.Add(tc.after)); got != tc.want {
			t.Errorf("version %q in the cache after %s: lost %t, want %t", tc.cached, tc.after, got, tc.want)
		}
	}
}

// TestHangingProbesDoNotBlockCallers checks that hanging probes never block a reconcile.
func TestHangingProbesDoNotBlockCallers(t *testing.T) {
	d, _, respond, requeued := newTestProber(t)
	start := time.Now()
	for i := range 3 * MaxConcurrentProbes {
		d.Latest(ID{types.NamespacedName{Name: "shop"}, string(rune('a' + i))}, ProbeKey{Pod: "1"}, Database{}, start)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the calls took %s", took)
	}
	for range 3 * MaxConcurrentProbes {
		respond <- nil
	}
	for range 3 * MaxConcurrentProbes {
		<-requeued
	}
}

// TestFailedPingTriggersProbe checks that a healthy database is pinged, and that a failed ping
// requeues its application.
func TestFailedPingTriggersProbe(t *testing.T) {
	d, probed, respond, requeued := newTestProber(t)
	pings := make(chan error)
	d.pingInterval, d.pingFunc = time.Millisecond, func(context.Context, Database, State) error { return <-pings }
	shop := ID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
	key := ProbeKey{Pod: "1"}
	d.Latest(shop, key, Database{}, time.Now())
	<-probed
	respond <- nil
	<-requeued
	for range 3 {
		pings <- nil
	}
	if len(requeued) > 0 {
		t.Error("an application was requeued although its database is healthy")
	}
	pings <- errors.New("too many connections")
	<-requeued
	d.Latest(shop, key, Database{}, time.Now())
	<-probed // it is probed at once
	respond <- errors.New("too many connections")
	<-requeued
	select {
	case pings <- nil:
		t.Error("an unhealthy database is pinged instead of probed")
	case <-time.After(50 * time.Millisecond):
	}
}

// TestOnePingLoopPerDatabase checks that repeated probes do not start more pings.
func TestOnePingLoopPerDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, probed, respond, requeued := newTestProber(t)
		pings := make(chan struct{}, 100)
		d.pingInterval, d.pingFunc = 50*time.Millisecond, func(context.Context, Database, State) error {
			pings <- struct{}{}
			return nil
		}
		shop := ID{types.NamespacedName{Namespace: "a", Name: "shop"}, "db"}
		for i := range 20 {
			d.Latest(shop, ProbeKey{Pod: "1", Spec: fmt.Sprint(i)}, Database{}, time.Now())
			<-probed
			respond <- nil
			<-requeued
		}
		time.Sleep(300 * time.Millisecond)
		if n := len(pings); n == 0 || n > 6 {
			t.Errorf("%d pings in 300 ms with an interval of 50 ms", n)
		}
	})
}

func TestProbesStopWithTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prober, _, _, requeued := newTestProber(t)
		ctx, stop := context.WithCancel(t.Context())
		prober.Start(ctx)
		var probeErr error
		prober.probeFunc = func(ctx context.Context, _ Database) (State, error) {
			<-ctx.Done()
			probeErr = ctx.Err()
			return State{}, probeErr
		}
		prober.Latest(ID{Component: "db"}, ProbeKey{Pod: "1"}, Database{}, time.Now())
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
	prober := NewProber(&Reconciler{Keys: appsapi.DefaultKeys}, clk, func(_ context.Context, app types.NamespacedName) { requeued <- app })
	prober.Start(t.Context())
	prober.probeFunc = func(context.Context, Database) (State, error) { return State{}, nil }
	prober.pingFunc = func(context.Context, Database, State) error {
		pinged <- struct{}{}
		return errors.New("refused")
	}
	id, key := ID{Component: "db"}, ProbeKey{Pod: "1"}
	prober.Latest(id, key, Database{}, clk.Now())
	<-requeued
	if v, _ := prober.Latest(id, key, Database{}, clk.Now()); v.NextAt.Before(clk.Now().Add(probeInterval)) {
		t.Errorf("the next probe is at %s, want %s after %s", v.NextAt, probeInterval, clk.Now())
	}
	clk.Step(2 * pingInterval)
	<-pinged
	<-requeued // the ping failed: the application is reconciled
}
