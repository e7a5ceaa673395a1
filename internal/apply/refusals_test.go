package apply

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/own"
)

// TestRefused asks all the time for what is refused: the API server is asked ever more
// rarely, at most so many times in ten minutes.
func TestRefused(t *testing.T) {
	m, clock := newMemory(), newClock()
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("quota"))
	live := seen("a", "100", 1)
	tries := 0
	for start := clock.Now(); clock.Now().Sub(start) < 10*time.Minute; clock.SetTime(clock.Now().Add(10 * time.Millisecond)) {
		err := m.refused(webKey, us, "wish", live, clock.Now())
		if err == nil {
			tries++
			m.noteRefusal(webKey, us, "wish", live, no, clock.Now(), 5*time.Minute)
			continue
		}
		var before *Refused
		if !errors.As(err, &before) || !errors.Is(err, no) || before.Wait <= 0 {
			t.Fatalf("got %v", err)
		}
	}
	if tries < 10 || tries > 20 {
		t.Errorf("asked %d times in ten minutes", tries)
	}
}

// TestRefusedIsOver tells when there is a reason to ask again at once.
func TestRefusedIsOver(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("quota"))
	live := seen("a", "100", 1)
	cases := map[string]struct {
		wish  string
		live  client.Object
		then  error
		after time.Duration
		over  bool
	}{
		"nothing happened":          {wish: "wish", live: live, then: no, after: time.Millisecond},
		"the status has changed":    {wish: "wish", live: seen("a", "101", 1), then: no, after: time.Millisecond},
		"time has passed":           {wish: "wish", live: live, then: no, after: 20 * time.Millisecond, over: true},
		"another wish":              {wish: "other", live: live, then: no, after: time.Millisecond, over: true},
		"somebody changed it":       {wish: "wish", live: seen("a", "101", 2), then: no, after: time.Millisecond, over: true},
		"another object":            {wish: "wish", live: seen("b", "101", 1), then: no, after: time.Millisecond, over: true},
		"it is gone":                {wish: "wish", then: no, after: time.Millisecond, over: true},
		"it was accepted":           {wish: "wish", live: live, after: time.Millisecond, over: true},
		"the API server is away":    {wish: "wish", live: live, then: errors.New("dial"), after: time.Millisecond, over: true},
		"somebody else was faster":  {wish: "wish", live: live, then: apierrors.NewConflict(schema.GroupResource{}, "web", nil), after: time.Millisecond, over: true},
		"the API server is in need": {wish: "wish", live: live, then: apierrors.NewTooManyRequests("later", 1), after: time.Millisecond, over: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, clock := newMemory(), newClock()
			m.noteRefusal(webKey, us, "wish", live, tc.then, clock.Now(), time.Minute)
			err := m.refused(webKey, us, tc.wish, tc.live, clock.Now().Add(tc.after))
			if (err == nil) != tc.over {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLost tells when a child may have been made although we were told nothing of it.
func TestLost(t *testing.T) {
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
		"taken":                     {err: &own.NameConflict{}},
		"it was there before":       {live: seen("a", "100", 1), err: errors.New("reset")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.noteRefusal(webKey, us, "wish", tc.live, tc.err, newClock().Now(), time.Minute)
			if got := m.mayHaveBeen(webKey, us); got != tc.want {
				t.Errorf("may have been made: %t, want %t", got, tc.want)
			}
			if m.wasOurs(webKey, us) {
				t.Error("to make it is no repair")
			}
		})
	}
}
