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

// TestRejectedWritesBackOff retries a rejected write continuously: the API server receives a
// limited number of requests in ten minutes.
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
		t.Errorf("%d requests in ten minutes", tries)
	}
}

// TestRejectionEnds checks when a rejected write is retried at once.
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
		"no change":              {fingerprint: "wish", live: live, writeErr: forbidden, elapsed: time.Millisecond},
		"status changed":         {fingerprint: "wish", live: deploymentAt("a", "101", 1), writeErr: forbidden, elapsed: time.Millisecond},
		"backoff ended":          {fingerprint: "wish", live: live, writeErr: forbidden, elapsed: 20 * time.Millisecond, ended: true},
		"other configuration":    {fingerprint: "other", live: live, writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"object changed":         {fingerprint: "wish", live: deploymentAt("a", "101", 2), writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"object recreated":       {fingerprint: "wish", live: deploymentAt("b", "101", 1), writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"object deleted":         {fingerprint: "wish", writeErr: forbidden, elapsed: time.Millisecond, ended: true},
		"accepted":               {fingerprint: "wish", live: live, elapsed: time.Millisecond, ended: true},
		"API server unreachable": {fingerprint: "wish", live: live, writeErr: errors.New("dial"), elapsed: time.Millisecond, ended: true},
		"conflict":               {fingerprint: "wish", live: live, writeErr: apierrors.NewConflict(schema.GroupResource{}, "web", nil), elapsed: time.Millisecond, ended: true},
		"API server overloaded":  {fingerprint: "wish", live: live, writeErr: apierrors.NewTooManyRequests("later", 1), elapsed: time.Millisecond, ended: true},
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

// TestUnknownOutcomeMayExist checks when a child may exist although no response confirms its
// creation.
func TestUnknownOutcomeMayExist(t *testing.T) {
	group := schema.GroupResource{Resource: "jobs"}
	cases := map[string]struct {
		live client.Object
		err  error
		want bool
	}{
		"created":               {},
		"connection lost":       {err: errors.New("reset"), want: true},
		"gateway timeout":       {err: apierrors.NewTimeoutError("later", 1), want: true},
		"rejected":              {err: apierrors.NewForbidden(group, "web", nil)},
		"conflict":              {err: apierrors.NewConflict(group, "web", nil)},
		"API server overloaded": {err: apierrors.NewTooManyRequests("later", 1)},
		"stale":                 {err: ErrStale},
		"taken":                 {err: &ownership.NameConflict{}},
		"existed before":        {live: deploymentAt("a", "100", 1), err: errors.New("reset")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache := newChildCache()
			cache.recordWriteResult(webKey, ownerUID, "wish", tc.live, tc.err, newClock().Now(), time.Minute)
			if got := cache.mayExist(webKey, ownerUID); got != tc.want {
				t.Errorf("may exist: %t, want %t", got, tc.want)
			}
			if cache.wasOwned(webKey, ownerUID) {
				t.Error("creating it must not count as a repair")
			}
		})
	}
}
