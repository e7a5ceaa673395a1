package sse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

type emptySource struct{}

func (emptySource) Open(string) ([]Change, error) { return nil, nil }
func (emptySource) Close(string)                  {}

// newTestClient returns a client whose snapshot is read step by step.
func newTestClient(t *testing.T) (*Hub, *client) {
	t.Helper()
	h := New(emptySource{}, clock.RealClock{}, Options{})
	top, err := h.joinTopic(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return h, h.newClient(Subscription{Allows: func(s Scope) bool { return s.Namespace != "hidden" }}, []*topic{top})
}

func publish(t *testing.T, h *Hub, key, ns string, body any) {
	t.Helper()
	if err := h.Publish(Change{Topic: "a", Key: key, Scopes: []Scope{{Namespace: ns}}, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// The snapshot and the queued frames result in the final state, whatever changes between the parts of the
// snapshot, including entries that are removed and added again in another slot.
func TestSnapshotIsConsistentWhileEntriesChange(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		h, c := newTestClient(t)
		want := map[string]string{}
		step := func(i int) {
			key, ns := fmt.Sprint(rng.IntN(700)), "seen"
			if rng.IntN(4) == 0 {
				ns = "hidden"
			}
			if rng.IntN(3) == 0 {
				publish(t, h, key, ns, nil)
				delete(want, key)
				return
			}
			publish(t, h, key, ns, i)
			if want[key] = fmt.Sprint(i); ns == "hidden" {
				delete(want, key)
			}
		}
		for i := range 2000 {
			step(i)
		}
		h.attach(c, "")
		got := map[string]string{}
		for complete := false; !complete; {
			var frames []*frame
			frames, complete = c.nextPart(nil)
			for _, f := range frames {
				got[f.key] = bodyOf(f)
			}
			for i := range rng.IntN(800) {
				step(10000 + i)
			}
		}
		batch, _ := c.takeQueued()
		for last, i := uint64(0), 0; i < len(batch); i++ {
			it := batch[i]
			if it.frame == nil {
				continue
			}
			if it.frame.sequence <= last {
				t.Fatalf("seed %d: sequence number %d after %d", seed, it.frame.sequence, last)
			}
			if last = it.frame.sequence; it.removal || it.frame.isRemoval() {
				delete(got, it.frame.key)
				continue
			}
			got[it.frame.key] = bodyOf(it.frame)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// Changes of slots that the snapshot has not reached are not queued.
func TestChangesAheadOfSnapshotAreNotQueued(t *testing.T) {
	h, c := newTestClient(t)
	for i := range 600 {
		publish(t, h, fmt.Sprint(i), "seen", i)
	}
	h.attach(c, "")
	first, _ := c.nextPart(nil)
	publish(t, h, "599", "seen", "new")
	publish(t, h, "0", "seen", "new")
	if len(first) != 256 || len(c.queueIndex) != 1 {
		t.Errorf("want 256 entries and 1 queued frame, got %d and %d", len(first), len(c.queueIndex))
	}
}

func bodyOf(f *frame) string {
	_, body, _ := strings.Cut(string(f.data), `"body":`)
	return strings.TrimSuffix(body, "}")
}

// An entry that keeps changing occupies one queued frame, and the queue never exceeds its limit.
func TestClientQueueIsBounded(t *testing.T) {
	h, c := newTestClient(t)
	h.attach(c, "")
	c.nextPart(nil)
	body := strings.Repeat("x", 2000)
	for i := range 5000 {
		publish(t, h, "same", "seen", fmt.Sprint(i, body))
	}
	if len(c.queue) > 2*smallQueueSize || len(c.queueIndex) != 1 || c.pendingBytes > 3000 {
		t.Errorf("want one frame, got a queue of %d, %d entries, %d bytes", len(c.queue), len(c.queueIndex), c.pendingBytes)
	}
	// Frames that are being written count as pending.
	batch, cost := c.takeQueued()
	publish(t, h, "other", "seen", 1)
	if c.pendingBytes <= cost {
		t.Errorf("want more than the %d bytes in progress, got %d", cost, c.pendingBytes)
	}
	c.markWritten(batch, cost)
	for i := 0; !c.isSlow(); i++ {
		if publish(t, h, fmt.Sprint(i), "seen", body); c.pendingBytes > MaxPendingBytes && !c.isSlow() || i > 1000 {
			t.Fatalf("after %d frames %d bytes are pending", i, c.pendingBytes)
		}
	}
	if c.queue != nil || c.queueIndex != nil {
		t.Error("want an empty queue for a slow client")
	}
	publish(t, h, "late", "seen", 1)
	if c.queue != nil {
		t.Error("want no more queued frames")
	}
}
