package apply

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// TestRejectedWritesBackOff asks all the time for what is refused: the API server is asked ever more
// rarely, at most so many times in ten minutes.
func TestRejectedWritesBackOff(t *testing.T) {
	cache, clock := newChildCache(), newClock()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("quota"))
	live := deploymentAt("a", "100", 1)
	tries := 0
	for start := clock.Now(); clock.Now().Sub(start) < 10*time.Minute; clock.SetTime(clock.Now().Add(10 * time.Millisecond)) {
		err := cache.pendingRejection(webKey, ownerUID, "wish", live, clock.Now())
		if err == nil {
			tries++
			cache.recordWriteResult(webKey, ownerUID, "wish", live, forbidden, clock.Now(), 5*time.Minute)
			continue
		}
		var rejected *Rejected
		if !errors.As(err, &rejected) || !errors.Is(err, forbidden) || rejected.RetryAfter <= 0 {
			t.Fatalf("got %v", err)
		}
	}
	if tries < 10 || tries > 20 {
		t.Errorf("asked %d times in ten minutes", tries)
	}
}

// TestRejectionEnds tells when there is a reason to ask again at once.
func TestRejectionEnds(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("quota"))
	live := deploymentAt("a", "100", 1)
	cases := map[string]struct {
		fingerprint string
		live        client.Object
		writeErr    error
		elapsed     time.Duration
		ended       bool
	}{
		"nothing happened":          {fingerprint: "wish", live: live, writeErr: forbidden, elapsed: time.Millisecond},
		"the status has changed":    {fingerprint: "wish", live: deploymentAt("a", "101", 1), writeErr: forbidden, elapsed: time.Millisecond},
		"time has passed":           {fingerprint: "wish", live: live, writeErr: forbidden, elapsed: 20 * time.Millisecond, ended: true},
		"another wish":              {fingerprint: "other", live: live, writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"somebody changed it":       {fingerprint: "wish", live: deploymentAt("a", "101", 2), writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"another object":            {fingerprint: "wish", live: deploymentAt("b", "101", 1), writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"it is gone":                {fingerprint: "wish", writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"it was accepted":           {fingerprint: "wish", live: live, elapsed: time.Millisecond, ended: true},
		"the API server is away":    {fingerprint: "wish", live: live, writeErr: errors.New("dial"), elapsed: time.Millisecond, ended: true},
		"somebody else was faster":  {fingerprint: "wish", live: live, writeErr: apierrors.NewConflict(schema.GroupResource{}, "web", nil), elapsed: time.Millisecond, ended: true},
		"the API server is in need": {fingerprint: "wish", live: live, writeErr: apierrors.NewTooManyRequests("later", 1), elapsed: time.Millisecond, ended: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache, clock := newChildCache(), newClock()
			cache.recordWriteResult(webKey, ownerUID, "wish", live, tc.writeErr, clock.Now(), time.Minute)
			err := cache.pendingRejection(webKey, ownerUID, tc.fingerprint, tc.live, clock.Now().Add(tc.elapsed))
			if (err == nil) != tc.ended {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestUnknownOutcomeMayExist tells when a child may have been made although we were told nothing of it.
func TestUnknownOutcomeMayExist(t *testing.T) {
	group := schema.GroupResource{Resource: "jobs"}
	cases := map[string]struct {
		live client.Object
		err  error
		want bool
	}{
		"it was made":               {},
		"the connection was lost":   {err: errors.New("reset"), want: true},
		"the gateway gave up":       {err: apierrors.NewTimeoutError("later", 1), want: true},
		"refused":                   {err: apierrors.NewForbidden(group, "web", nil)},
		"somebody else was faster":  {err: apierrors.NewConflict(group, "web", nil)},
		"the API server is in need": {err: apierrors.NewTooManyRequests("later", 1)},
		"decided on what was":       {err: ErrStale},
		"taken":                     {err: &ownership.NameConflict{}},
		"it was there before":       {live: deploymentAt("a", "100", 1), err: errors.New("reset")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache := newChildCache()
			cache.recordWriteResult(webKey, ownerUID, "wish", tc.live, tc.err, newClock().Now(), time.Minute)
			if got := cache.mayExist(webKey, ownerUID); got != tc.want {
				t.Errorf("may have been made: %t, want %t", got, tc.want)
			}
			if cache.wasOwned(webKey, ownerUID) {
				t.Error("to make it is no repair")
			}
		})
	}
}
