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
	// blindPeriod is the time for which events are held back or stale state is served.
	blindPeriod = 2 * time.Second
	// staleStartPeriod is the time for which the beginning of a step is served: longer than the time for which the
	// operator trusts write responses over its cache.
	staleStartPeriod = 12 * time.Second
	// relistCount is the number of times a plan makes every watch expire.
	relistCount = 8
)

// injectionFlag records whether the fault of a plan was injected.
type injectionFlag struct{ atomic.Bool }

// faultHooks inject faults into a step. All of them may be nil.
type faultHooks struct {
	// beforeStep runs before the user acts.
	beforeStep func()
	// duringStep runs after the user acted, and returns when no more faults are injected.
	duringStep func(context.Context) error
	// afterSettled runs when the step has settled, with the index of its first event.
	afterSettled func(ctx context.Context, from int) error
}

// hooksFor returns the hooks that inject the fault of a plan.
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
		code, _ := strconv.Atoi(p.args[1]) // 0 for reset
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
		ms, _ := strconv.Atoi(p.args[0]) // an invalid number means no delay
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

// waitForWatches waits until the operator watches again. The backoff of client-go grows up to a minute after several
// lists.
func (w *world) waitForWatches(ctx context.Context, filter proxy.ResourceFilter, watches int) error {
	for range 700 {
		if w.proxy.OpenWatches(filter) >= watches {
			w.lastWrite.Store(time.Now().UnixNano()) // events that it receives now count as new
			return nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("the operator has %d of %d watches", w.proxy.OpenWatches(filter), watches)
}

// restartWithStaleState restarts the operator and serves the state at an earlier point of the step.
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
		return fmt.Errorf("the step has no events")
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

// onceAtWrite injects a fault at one write.
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

// crashAtNthWrite kills the operator at the nth write after its restart.
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
