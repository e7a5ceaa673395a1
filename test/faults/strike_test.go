package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/test/faults/oracle"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

const (
	// blind is how long the operator sees nothing, and how long it is left in the past.
	blind = 2 * time.Second
	// farPast is how long it is left in the past of the beginning of a step: longer than the
	// operator takes the answer to a write for newer than its cache.
	farPast = 12 * time.Second
	// relists is how often a plan makes every watch expire.
	relists = 8
)

// struck says whether a plan did what it was made for.
type struck struct{ atomic.Bool }

// trouble is what goes wrong in a step. All of it may be nil.
type trouble struct {
	// begin is called before the user acts.
	begin func()
	// meanwhile is called when the user has acted, and returns when nothing goes wrong any
	// more.
	meanwhile func(context.Context) error
	// after is called when the step has settled, with the place of its first event.
	after func(ctx context.Context, from int) error
}

// trouble makes a plan come true.
func (w *world) trouble(p plan, done *struck) trouble {
	strike := func(f func(proxy.Write) *proxy.Fault) trouble { return trouble{begin: func() { w.arm(f) }} }
	switch p.kind {
	case crash:
		return strike(once(p.args[0], done, w.killing(p.args[1])))
	case crash2:
		return strike(once(p.args[0], nil, w.killing(p.args[1], func() { w.crashLater(p.args[2], p.args[3], done) })))
	case lost:
		return strike(once(p.args[0], done, &proxy.Fault{Code: http.StatusGatewayTimeout}))
	case refuse:
		code, _ := strconv.Atoi(p.args[1]) // 0 for a reset
		return strike(once(p.args[0], done, &proxy.Fault{Withheld: true, Code: code, Reset: code == 0}))
	case travel:
		return trouble{after: func(ctx context.Context, from int) error { return w.travel(ctx, p, from, done) }}
	case unseen:
		only := proxy.Only(p.args[0])
		return trouble{
			begin: func() { w.proxy.Hold(only) },
			meanwhile: func(ctx context.Context) error {
				wait(ctx, blind)
				expired := w.proxy.Expire(only)
				w.proxy.Release()
				done.Store(expired > 0)
				return w.sees(ctx, only, expired)
			},
		}
	case lag:
		ms, _ := strconv.Atoi(p.args[0]) // checked by nobody: 0 is no lag
		return trouble{
			begin: func() { w.proxy.Delay(time.Duration(ms) * time.Millisecond) },
			meanwhile: func(ctx context.Context) error {
				wait(ctx, 2*blind)
				w.proxy.Delay(0)
				done.Store(true)
				return nil
			},
		}
	default:
		return trouble{meanwhile: func(ctx context.Context) error {
			all := w.proxy.Watches(nil)
			for range relists {
				wait(ctx, blind/relists)
				if w.proxy.Expire(nil) > 0 {
					done.Store(true)
				}
			}
			return w.sees(ctx, nil, all)
		}}
	}
}

// sees waits until the operator watches again. Between two tries client-go waits ever
// longer, up to a minute when one list after the other is needed.
func (w *world) sees(ctx context.Context, which proxy.Which, watches int) error {
	for range 700 {
		if w.proxy.Watches(which) >= watches {
			w.lastWrite.Store(time.Now().UnixNano()) // what it sees now counts as new
			return nil
		}
		wait(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("the operator watches %d of %d things", w.proxy.Watches(which), watches)
}

// travel starts the operator again and shows it the step as it was at some moment.
func (w *world) travel(ctx context.Context, p plan, from int, done *struck) error {
	percent, err := strconv.Atoi(p.args[0])
	if err != nil {
		return err
	}
	var which proxy.Which
	switch p.args[1] {
	case "apps":
		which = applications
	case "children":
		which = func(resource string) bool { return !applications(resource) }
	}
	moments := oracle.TimelineOf(w.seen.Events()[from:])
	if len(moments) == 0 {
		return fmt.Errorf("nothing happened in the step")
	}
	w.proxy.Freeze(oracle.Version(moments[(len(moments)-1)*percent/100]), which)
	w.crash()
	w.lives.Wait()
	if err := w.operator.WaitReady(ctx); err != nil {
		return err
	}
	if percent == 0 {
		wait(ctx, farPast-blind)
	}
	wait(ctx, blind)
	w.proxy.Thaw()
	w.lastWrite.Store(time.Now().UnixNano())
	done.Store(true)
	return nil
}

func applications(resource string) bool {
	return slices.Contains([]string{"appservices.apps.holdfast.dev", "appstacks.apps.holdfast.dev"}, resource)
}

// killing kills the operator at a write.
func (w *world) killing(mode string, then ...func()) *proxy.Fault {
	kill := func() {
		for _, f := range then {
			f()
		}
		w.crash()
	}
	switch mode {
	case "before":
		return &proxy.Fault{Before: kill, Withheld: true, Reset: true}
	case "unanswered":
		return &proxy.Fault{Forwarded: kill, Reset: true}
	}
	return &proxy.Fault{After: kill}
}

// once strikes at one write.
func once(write string, done *struck, f *proxy.Fault) func(proxy.Write) *proxy.Fault {
	var over atomic.Bool
	return func(w proxy.Write) *proxy.Fault {
		if w.String() != write || !over.CompareAndSwap(false, true) {
			return nil
		}
		if done != nil {
			done.Store(true)
		}
		return f
	}
}

// crashLater kills the operator at a write of its next life.
func (w *world) crashLater(nth, mode string, done *struck) {
	var over atomic.Bool
	w.arm(func(write proxy.Write) *proxy.Fault {
		if strconv.Itoa(write.N) != nth || !over.CompareAndSwap(false, true) {
			return nil
		}
		done.Store(true)
		return w.killing(mode)
	})
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
