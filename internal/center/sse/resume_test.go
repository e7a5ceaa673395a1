package sse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

func TestResume(t *testing.T) {
	for name, tc := range map[string]struct {
		// query is the second request. id maps the last received id to its Last-Event-ID.
		query string
		id    func(string) string
		// otherChanges is the number of changes of other topics.
		otherChanges int
		want         []string
	}{
		"missed changes": {
			query: "topic=a&topic=b&user=x",
			want:  []string{"x/two gone", "x/b=1", "x/one=3"},
		},
		"full ring":                    {query: "topic=a&topic=b&user=x", otherChanges: 1021, want: []string{"x/two gone", "x/b=1", "x/one=3"}},
		"ring overflow":                {query: "topic=a&topic=b&user=x", otherChanges: 1022},
		"another replica":              {query: "topic=a&topic=b&user=x", id: func(id string) string { return "OTHER" + id }},
		"id without a number":          {query: "topic=a&topic=b&user=x", id: func(id string) string { return id + "x" }},
		"id from the future":           {query: "topic=a&topic=b&user=x", id: func(id string) string { return id + "000000" }},
		"permissions may have changed": {query: "topic=a&topic=b&user=x&fresh"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startHarness(t)
			r.access["x"] = allowNamespaces("x")
			keep := r.connect("topic=a&topic=b&user=y", "") // keeps the topic open
			keep.expectEvents("", "snapshot")
			r.src.set(entry("a", "x", "one", 1), entry("a", "x", "two", 1))
			first := r.connect("topic=a&topic=b&user=x", "")
			first.expectEvents("", "snapshot")
			r.src.set(entry("a", "x", "seen", 1))
			id := first.expectEvents("change")[0].id
			first.cancel()
			eventually(t, "client to disconnect", func() bool { return r.hub.Stats().Clients == 1 })

			r.src.set(entry("a", "x", "one", 2), entry("a", "y", "hidden", 1), entry("a", "x", "two", nil))
			r.src.set(entry("b", "x", "b", 1))
			r.src.set(entry("a", "x", "one", 3))
			for i := range tc.otherChanges - 1 {
				r.src.set(entry("a", "y", "hidden", i+2))
			}
			if tc.id != nil {
				id = tc.id(id)
			}
			c := r.connect(tc.query, id)
			if tc.want == nil {
				got := snapshotEntries(t, c.expectEvents("", "snapshot")[1])
				if diff := cmp.Diff([]string{"x/b=1", "x/one=3", "x/seen=1"}, got); diff != "" {
					t.Errorf("snapshot (-want +got):\n%s", diff)
				}
				return
			}
			var got []string
			for _, e := range c.expectEvents(append([]string{""}, repeatName("change", len(tc.want))...)...)[1:] {
				got = append(got, formatDelta(t, e))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("resumed with (-want +got):\n%s", diff)
			}
			c.expectNoEvent()
			if got := r.hub.Stats().Resumed; got != 1 {
				t.Errorf("want 1 resumed, got %d", got)
			}
		})
	}
}

func repeatName(name string, n int) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(name+" ", n), " "), " ")
}

// A topic that was closed and opened again has missed the changes between.
func TestNoResumeAfterTopicReopened(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{TopicIdleTimeout: 40 * time.Millisecond})
	r.server.Start()
	r.src.set(entry("a", "x", "one", 1))
	c := r.connect("topic=a", "")
	c.expectEvents("", "snapshot")
	r.src.set(entry("a", "x", "one", 2))
	id := c.expectEvents("change")[0].id
	c.cancel()
	eventually(t, "topic to close", func() bool { return len(r.hub.Stats().Topics) == 0 })
	r.src.set(entry("a", "x", "one", 3))
	got := snapshotEntries(t, r.connect("topic=a", id).expectEvents("", "snapshot")[1])
	if diff := cmp.Diff([]string{"x/one=3"}, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// A large snapshot is sent in parts, and clients can resume only from the last part.
func TestLargeSnapshotIsSentInParts(t *testing.T) {
	r := startHarness(t)
	body := strings.Repeat("x", 1000)
	var all []sse.Change
	for i := range 1000 {
		all = append(all, entry("a", "x", fmt.Sprint(i), body))
	}
	all = append(all, entry("a", "x", "large", strings.Repeat("y", 300<<10)))
	r.src.set(all...)
	c := r.connect("topic=a", "")
	c.expectEvents("")
	seen := map[string]bool{}
	for part := 0; ; part++ {
		e := c.expectEvents("snapshot")[0]
		p := decode(t, e)
		if p.Part != part || !e.hasID || (e.id != "") != p.Complete {
			t.Fatalf("part %d: got part %d, complete %t, id %q", part, p.Part, p.Complete, e.id)
		}
		for _, x := range p.Entries {
			if seen[x.Key] {
				t.Errorf("%s twice", x.Key)
			}
			seen[x.Key] = true
		}
		if len(p.Entries) > 1 && len(e.data) > 80<<10 {
			t.Errorf("part %d has %d bytes", part, len(e.data))
		}
		if p.Complete {
			if part < 15 {
				t.Errorf("want more than 15 parts, got %d", part)
			}
			break
		}
	}
	if len(seen) != len(all) {
		t.Errorf("want %d entries, got %d", len(all), len(seen))
	}
}
