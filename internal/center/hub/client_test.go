package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

type nothing struct{}

func (nothing) Open(string) ([]Change, error) { return nil, nil }
func (nothing) Close(string)                  {}

// walker is a client whose walk is taken step by step.
func walker(t *testing.T) (*Hub, *client) {
	t.Helper()
	h := New(nothing{}, clock.RealClock{}, Options{})
	top, err := h.join(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return h, h.newClient(Subscription{Sees: func(s Scope) bool { return s.Namespace != "hidden" }}, []*topic{top})
}

func publish(t *testing.T, h *Hub, key, ns string, body any) {
	t.Helper()
	if err := h.Publish(Change{Topic: "a", Key: key, Scopes: []Scope{{Namespace: ns}}, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// Whatever changes between the parts of a walk, the snapshot and what waits behind it are the
// state at its end: also of entries that go and come back in another slot.
func TestWalkWhileEntriesMove(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		h, c := walker(t)
		want := map[string]string{}
		step := func(i int) {
			key, ns := fmt.Sprint(rnd.IntN(700)), "seen"
			if rnd.IntN(4) == 0 {
				ns = "hidden"
			}
			if rnd.IntN(3) == 0 {
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
			frames, complete = c.part(nil)
			for _, f := range frames {
				got[f.key] = bodyOf(f)
			}
			for i := range rnd.IntN(800) {
				step(10000 + i)
			}
		}
		batch, _ := c.take()
		for last, i := uint64(0), 0; i < len(batch); i++ {
			it := batch[i]
			if it.frame == nil {
				continue
			}
			if it.frame.number <= last {
				t.Fatalf("seed %d: number %d after %d", seed, it.frame.number, last)
			}
			if last = it.frame.number; it.gone || it.frame.removes() {
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

// What a walk has not come to yet needs no place in the queue.
func TestWalkIsNotSentTwice(t *testing.T) {
	h, c := walker(t)
	for i := range 600 {
		publish(t, h, fmt.Sprint(i), "seen", i)
	}
	h.attach(c, "")
	first, _ := c.part(nil)
	publish(t, h, "599", "seen", "new")
	publish(t, h, "0", "seen", "new")
	if len(first) != 256 || len(c.where) != 1 {
		t.Errorf("want 256 entries and then one that waits, got %d and %d", len(first), len(c.where))
	}
}

func bodyOf(f *frame) string {
	_, body, _ := strings.Cut(string(f.data), `"body":`)
	return strings.TrimSuffix(body, "}")
}

// One entry that changes for ever costs one frame, and what waits never costs more than said.
func TestQueueIsBounded(t *testing.T) {
	h, c := walker(t)
	h.attach(c, "")
	c.part(nil)
	body := strings.Repeat("x", 2000)
	for i := range 5000 {
		publish(t, h, "same", "seen", fmt.Sprint(i, body))
	}
	if len(c.queue) > 2*smallQueue || len(c.where) != 1 || c.bytes > 3000 {
		t.Errorf("want one frame, got a queue of %d, %d entries, %d bytes", len(c.queue), len(c.where), c.bytes)
	}
	// What is being written counts until it is.
	batch, cost := c.take()
	publish(t, h, "other", "seen", 1)
	if c.bytes <= cost {
		t.Errorf("want more than the %d bytes that are being written, got %d", cost, c.bytes)
	}
	c.written(batch, cost)
	for i := 0; !c.isSlow(); i++ {
		if publish(t, h, fmt.Sprint(i), "seen", body); c.bytes > MaxPending && !c.isSlow() || i > 1000 {
			t.Fatalf("after %d frames %d bytes wait", i, c.bytes)
		}
	}
	if c.queue != nil || c.where != nil {
		t.Error("want nothing to be held for a client that is too slow")
	}
	publish(t, h, "late", "seen", 1)
	if c.queue != nil {
		t.Error("want nothing to be queued any more")
	}
}
