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
	// blindPeriod is how long the operator sees nothing, and how long it is left in the past.
	blindPeriod = 2 * time.Second
	// staleStartPeriod is how long it is left in the past of the beginning of a step: longer than the
	// operator takes the answer to a write for newer than its cache.
	staleStartPeriod = 12 * time.Second
	// relistCount is how often a plan makes every watch expire.
	relistCount = 8
)

// injectionFlag says whether a plan did what it was made for.
type injectionFlag struct{ atomic.Bool }

// faultHooks is what goes wrong in a step. All of it may be nil.
type faultHooks struct {
	// beforeStep is called before the user acts.
	beforeStep func()
	// duringStep is called when the user has acted, and returns when nothing goes wrong any
	// more.
	duringStep func(context.Context) error
	// afterSettled is called when the step has settled, with the place of its first event.
	afterSettled func(ctx context.Context, from int) error
}

// hooksFor makes a plan come true.
func (w *world) hooksFor(p plan, injected *injectionFlag) faultHooks {
	injectAtWrites := func(f func(proxy.Write) *proxy.Fault) faultHooks {
		return faultHooks{beforeStep: func() { w.injectFaults(f) }}
	}
	switch p.kind {
	case crash:
		return injectAtWrites(onceAtWrite(p.args[0], injected, w.killFault(p.args[1])))
	case doubleCrash:
		return injectAtWrites(onceAtWrite(p.args[0], nil, w.killFault(p.args[1], func() { w.crashAtNthWrite(p.args[2], p.args[3], injected) })))
	case lostResponse:
		return injectAtWrites(onceAtWrite(p.args[0], injected, &proxy.Fault{Code: http.StatusGatewayTimeout}))
	case errorResponse:
		code, _ := strconv.Atoi(p.args[1]) // 0 for a reset
		return injectAtWrites(onceAtWrite(p.args[0], injected, &proxy.Fault{SkipForward: true, Code: code, Reset: code == 0}))
	case staleRestart:
		return faultHooks{afterSettled: func(ctx context.Context, from int) error { return w.restartWithStaleState(ctx, p, from, injected) }}
	case missedEvents:
		only := proxy.Only(p.args[0])
		return faultHooks{
			beforeStep: func() { w.proxy.HoldEvents(only) },
			duringStep: func(ctx context.Context) error {
				sleep(ctx, blindPeriod)
				expired := w.proxy.ExpireWatches(only)
				w.proxy.ReleaseEvents()
				injected.Store(expired > 0)
				return w.waitForWatches(ctx, only, expired)
			},
		}
	case delayedEvents:
		ms, _ := strconv.Atoi(p.args[0]) // checked by nobody: 0 is no lag
		return faultHooks{
			beforeStep: func() { w.proxy.DelayEvents(time.Duration(ms) * time.Millisecond) },
			duringStep: func(ctx context.Context) error {
				sleep(ctx, 2*blindPeriod)
				w.proxy.DelayEvents(0)
				injected.Store(true)
				return nil
			},
		}
	default:
		return faultHooks{duringStep: func(ctx context.Context) error {
			all := w.proxy.OpenWatches(nil)
			for range relistCount {
				sleep(ctx, blindPeriod/relistCount)
				if w.proxy.ExpireWatches(nil) > 0 {
					injected.Store(true)
				}
			}
			return w.waitForWatches(ctx, nil, all)
		}}
	}
}

// waitForWatches waits until the operator watches again. Between two tries client-go waits ever
// longer, up to a minute when one list after the other is needed.
func (w *world) waitForWatches(ctx context.Context, filter proxy.ResourceFilter, watches int) error {
	for range 700 {
		if w.proxy.OpenWatches(filter) >= watches {
			w.lastWrite.Store(time.Now().UnixNano()) // what it sees now counts as new
			return nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("the operator watches %d of %d things", w.proxy.OpenWatches(filter), watches)
}

// restartWithStaleState starts the operator again and shows it the step as it was at some moment.
func (w *world) restartWithStaleState(ctx context.Context, p plan, from int, injected *injectionFlag) error {
	percent, err := strconv.Atoi(p.args[0])
	if err != nil {
		return err
	}
	var filter proxy.ResourceFilter
	switch p.args[1] {
	case "apps":
		filter = isApplicationResource
	case "children":
		filter = func(resource string) bool { return !isApplicationResource(resource) }
	}
	timeline := oracle.NewTimeline(w.watcher.Events()[from:])
	if len(timeline) == 0 {
		return fmt.Errorf("nothing happened in the step")
	}
	w.proxy.ServeStale(oracle.ResourceVersion(timeline[(len(timeline)-1)*percent/100]), filter)
	w.crashAndRestart()
	w.restarts.Wait()
	if err := w.operator.WaitReady(ctx); err != nil {
		return err
	}
	if percent == 0 {
		sleep(ctx, staleStartPeriod-blindPeriod)
	}
	sleep(ctx, blindPeriod)
	w.proxy.ServeLive()
	w.lastWrite.Store(time.Now().UnixNano())
	injected.Store(true)
	return nil
}

func isApplicationResource(resource string) bool {
	return slices.Contains([]string{"appservices.apps.holdfast.dev", "appstacks.apps.holdfast.dev"}, resource)
}

// killFault kills the operator at a write.
func (w *world) killFault(mode string, beforeKill ...func()) *proxy.Fault {
	kill := func() {
		for _, f := range beforeKill {
			f()
		}
		w.crashAndRestart()
	}
	switch mode {
	case "before":
		return &proxy.Fault{BeforeForward: kill, SkipForward: true, Reset: true}
	case "unanswered":
		return &proxy.Fault{AfterForward: kill, Reset: true}
	}
	return &proxy.Fault{AfterResponse: kill}
}

// onceAtWrite strikes at one write.
func onceAtWrite(write string, injected *injectionFlag, f *proxy.Fault) func(proxy.Write) *proxy.Fault {
	var used atomic.Bool
	return func(w proxy.Write) *proxy.Fault {
		if w.String() != write || !used.CompareAndSwap(false, true) {
			return nil
		}
		if injected != nil {
			injected.Store(true)
		}
		return f
	}
}

// crashAtNthWrite kills the operator at a write of its next life.
func (w *world) crashAtNthWrite(nth, mode string, injected *injectionFlag) {
	var used atomic.Bool
	w.injectFaults(func(write proxy.Write) *proxy.Fault {
		if strconv.Itoa(write.Sequence) != nth || !used.CompareAndSwap(false, true) {
			return nil
		}
		injected.Store(true)
		return w.killFault(mode)
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
