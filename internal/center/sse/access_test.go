package sse_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

func TestEntriesAreFilteredByScope(t *testing.T) {
	r := startHarness(t)
	r.access["x"] = allowNamespaces("x")
	either := entry("a", "z", "either", 1)
	either.Scopes = []sse.Scope{pods("z"), pods("x")}
	nobody := entry("a", "x", "nobody", 1)
	nobody.Scopes = nil
	r.src.set(entry("a", "x", "mine", 1), entry("a", "y", "theirs", 1), either, nobody)
	c := r.connect("topic=a&user=x", "")
	if diff := cmp.Diff([]string{"x/mine=1", "z/either=1"}, snapshotEntries(t, c.expectEvents("", "snapshot")[1])); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}

	moved := func(ns string, body any) sse.Change {
		return sse.Change{Topic: "a", Key: "moving", Scopes: []sse.Scope{pods(ns)}, Body: body}
	}
	for _, step := range []struct {
		change sse.Change
		want   string
	}{
		{entry("a", "y", "theirs", 2), ""},
		{entry("a", "x", "mine", 2), "x/mine=2"},
		{moved("x", 1), "moving=1"},
		{moved("y", 1), "moving gone"},
		{moved("y", 2), ""},
		{moved("y", nil), ""},
		{moved("y", 3), ""},
		{moved("x", 3), "moving=3"},
		// Clients that could see the entry receive its removal, whatever its scopes.
		{moved("y", nil), "moving gone"},
		{entry("a", "y", "theirs", nil), ""},
		{sse.Change{Topic: "a", Key: "x/mine"}, "x/mine gone"},
	} {
		r.src.set(step.change)
		if step.want == "" {
			continue // the client receives nothing in this step
		}
		if got := formatDelta(t, c.expectEvents("change")[0]); got != step.want {
			t.Errorf("want %q, got %q", step.want, got)
		}
	}
	c.expectNoEvent()
}

func TestAccessChangeRestartsSnapshot(t *testing.T) {
	r := startHarness(t)
	userAccess := allowNamespaces("x", "y")
	r.access["u"] = userAccess
	r.src.set(entry("a", "x", "one", 1), entry("a", "y", "two", 1), entry("a", "z", "three", 1))
	c := r.connect("topic=a&user=u", "")
	id := c.expectEvents("", "snapshot")[1].id
	userAccess.set("x", "z")
	got := c.expectEvents("reset", "snapshot")
	if !got[0].hasID || got[0].id != "" {
		t.Errorf("want a reset with an empty id, got id %q", got[0].id)
	}
	if diff := cmp.Diff([]string{"x/one=1", "z/three=1"}, snapshotEntries(t, got[1])); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if got[1].id != id {
		t.Errorf("want the same id %s, got %s", id, got[1].id)
	}
	r.src.set(entry("a", "y", "two", 2), entry("a", "z", "three", 2))
	if got := formatDelta(t, c.expectEvents("change")[0]); got != "z/three=2" {
		t.Errorf("want z/three=2, got %s", got)
	}
	if s := r.hub.Stats(); s.Resets != 1 || s.Snapshots != 2 {
		t.Errorf("want 1 reset and 2 snapshots, got %d and %d", s.Resets, s.Snapshots)
	}
	close(userAccess.changed) // a closed channel must neither cause a busy loop nor end the stream
	r.src.set(entry("a", "x", "one", 3))
	c.expectEvents("change")
}

func TestRevokedStreamEnds(t *testing.T) {
	r := startHarness(t)
	userAccess := allowAll()
	r.access["u"] = userAccess
	c := r.connect("topic=a&user=u", "")
	c.expectEvents("", "snapshot")
	close(userAccess.revoked)
	r.src.set(entry("a", "x", "secret", 1))
	if e, ok := c.next(); ok {
		// A change may be sent at the same time, but nothing after it.
		t.Logf("crossed: %+v", e)
		if e, ok = c.next(); ok {
			t.Errorf("want the end of the stream, got %+v", e)
		}
	}
	late := r.connect("topic=a&user=u", "")
	if e, ok := late.next(); ok {
		t.Errorf("want a stream that ends immediately, got %+v", e)
	}
}
