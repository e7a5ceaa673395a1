package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

const (
	// busySeconds is the share of a core above which a process is busy.
	busySeconds = 0.2
	// sampleInterval is the sampling interval.
	sampleInterval = 100 * time.Millisecond
	// maxExternalCores is the maximum CPU use of other processes; above it, latencies would depend on the machine.
	maxExternalCores = 0.1
	// maxEdits corresponds to half a minute of edits.
	maxEdits = 300
)

// restartResult is the result of a restart after a kill.
type restartResult struct {
	startedAt     time.Time
	ready         time.Duration // reported by /readyz
	externalCores float64       // CPU use of processes that are not measured
}

// killAndRestart kills and restarts the operator; meanwhile runs from the restart on.
func (p *population) killAndRestart(meanwhile func()) restartResult {
	p.Helper()
	before := p.usage()
	before[contenderCPU] = 0 // of the new process
	p.must(p.op.Kill())
	r := restartResult{startedAt: time.Now()}
	p.must(p.op.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		meanwhile()
	}()
	p.must(p.op.WaitReady(p.Context()))
	r.ready = time.Since(r.startedAt)
	wait := p.startProfile("restart", 4) // while the backlog is processed
	<-done
	wait()
	r.externalCores = p.usage().since(before).external() / time.Since(r.startedAt).Seconds()
	return r
}

// waitBacklogProcessed waits for a second in which the operator was not busy, and returns its start. Waiting for a core
// counts as busy.
func (p *population) waitBacklogProcessed() time.Time {
	p.Helper()
	const window = int(time.Second / sampleInterval)
	var times []time.Time
	var used []float64
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(sampleInterval) {
		times, used = append(times, time.Now()), append(used, cpuDemand(p, p.op.Pid()))
		if from := len(used) - 1 - window; from >= 0 && used[len(used)-1]-used[from] < busySeconds {
			return times[from]
		}
	}
	p.Fatal("the operator does not become idle after its start")
	return time.Time{}
}

// cpuDemand returns the seconds in which threads of a process ran or waited for a core.
func cpuDemand(t testing.TB, pid int) float64 {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no schedstat of process %d: %v", pid, err)
	}
	sum := 0.0
	for _, file := range threads {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has exited
		}
		fields := strings.Fields(string(content)) // ns running, ns waiting, number of timeslices
		sum += (parseFloat(t, fields[0]) + parseFloat(t, fields[1])) / 1e9
	}
	return sum
}

// measureRestart kills the operator without load and during edits. The edits are also measured without a restart; the
// difference is the effect of the restart.
func (p *population) measureRestart() []results.Figure {
	p.Helper()
	figures, backlog := p.measureIdleRestart()
	figures = append(figures, p.measureEdits()...)
	for attempt := 1; ; attempt++ {
		edited, externalCores := p.measureRestartUnderEdits(backlog)
		if externalCores <= maxExternalCores || attempt == maxAttempts {
			return append(append(figures, edited...), results.Figure{Row: "P6", Name: "restarts among edits until others left the machine alone", Value: float64(attempt)})
		}
		p.logProgress("discarded: other processes used %.1f cores", externalCores)
	}
}

// measureIdleRestart also returns the time until the backlog is processed.
func (p *population) measureIdleRestart() ([]results.Figure, time.Duration) {
	p.Helper()
	p.waitIdle()
	objects, requests := p.snapshot(), p.requestCounts()
	r := p.killAndRestart(func() {})
	took := p.waitBacklogProcessed().Sub(r.startedAt)
	used := cpuSeconds(p, p.op.Pid())
	p.waitIdle()
	requests = p.requestCounts().since(requests)
	changed := p.snapshot().changedSince(objects)
	p.logProgress("restarted without load: ready after %s, synced after %s, %d writes", r.ready, took, requests.writes)
	const goal = 5 // s
	return []results.Figure{
		results.Figure{Row: "P6", Name: "start to synced", Value: took.Seconds(), Unit: "s", Note: fmt.Sprintf("%d applications, no edits; ready and no longer busy; other processes used %.1f cores", p.size, r.externalCores)}.WithGoal(goal),
		{Row: "P6", Name: "start to ready", Value: r.ready.Seconds(), Unit: "s", Note: "/readyz, polled every 50 ms"},
		{Row: "P6", Name: "CPU of a start", Value: used, Unit: "s"},
		results.Figure{Row: "P6", Name: "writes of a start", Value: float64(requests.writes), Note: "including rejected ones"}.WithBounds(0, 0),
		results.Figure{Row: "P6", Name: "objects changed by a start", Value: float64(len(changed))}.WithBounds(0, 0),
		{Row: "P6", Name: "reads and watches of a start", Value: float64(requests.reads + requests.watches)},
	}, took
}

// measureEdits measures the same edits with an operator that has been running for long.
func (p *population) measureEdits() []results.Figure {
	p.Helper()
	n := min(maxEdits, p.size/4)
	load, start := p.newEditLoad("calm"), time.Now()
	load.sendAll(n)
	load.waitObserved(n)
	p.waitIdle()
	took := load.latencies(start, time.Now())
	return []results.Figure{
		{Row: "P6", Name: "edit p99, no restart", Value: took.percentile(0.99) / 1000, Unit: "s", Note: fmt.Sprintf("%d edits, one per %s, accepted to Deployment", n, editInterval)},
		{Row: "P6", Name: "edit p50, no restart", Value: took.percentile(0.50) / 1000, Unit: "s"},
		{Row: "P6", Name: "edit p99 at the API server, no restart", Value: load.acceptLatencies(start).percentile(0.99) / 1000, Unit: "s", Note: "the same edits, sent to accepted"},
	}
}

// measureRestartUnderEdits also returns the CPU use of other processes.
func (p *population) measureRestartUnderEdits(backlog time.Duration) ([]results.Figure, float64) {
	p.Helper()
	n := min(maxEdits, p.size/4)
	load := p.newEditLoad("restart")
	objects, requests := p.snapshot(), p.requestCounts()
	r := p.killAndRestart(func() { load.sendAll(n) })
	load.waitObserved(n)
	p.waitIdle()
	requests = p.requestCounts().since(requests)
	unedited := 0
	for _, t := range p.snapshot().changedSince(objects) {
		if load.byApp[t.appName()] == nil || t.kind == "ServiceList" {
			p.Logf("%s %s/%s was written without an edit", t.kind, t.namespace, t.name)
			unedited++
		}
	}
	ready := r.startedAt.Add(r.ready)
	before, duringBacklog, after := load.latencies(r.startedAt, ready), load.latencies(ready, r.startedAt.Add(backlog)), load.latencies(ready, time.Now())
	p.logProgress("restarted during %d edits: ready after %s", n, r.ready)
	const must, goal = 1, 0.2 // s
	figures := []results.Figure{
		{Row: "P6", Name: "start to ready, among edits", Value: r.ready.Seconds(), Unit: "s", Note: fmt.Sprintf("%d edits, one per %s from the start of the process; other processes used %.1f cores", n, editInterval, r.externalCores)},
		results.Figure{Row: "P6", Name: "objects changed that were not edited", Value: float64(unedited)}.WithBounds(0, 0),
		{Row: "P6", Name: "writes per edit", Value: float64(requests.writes) / float64(n), Note: "Deployment, status, events"},
		results.Figure{Row: "P6", Name: "edit p99 after ready", Value: after.percentile(0.99) / 1000, Unit: "s", Note: fmt.Sprintf("%d edits, accepted to Deployment", len(after))}.WithBounds(must, goal),
		{Row: "P6", Name: "edit p99 at the API server", Value: load.acceptLatencies(ready).percentile(0.99) / 1000, Unit: "s", Note: "the same edits, sent to accepted: the latency of one request on this machine. Holdfast needs an event and two requests"},
		{Row: "P6", Name: "edit p50 after ready", Value: after.percentile(0.50) / 1000, Unit: "s"},
		{Row: "P6", Name: "edit p99 before ready", Value: before.percentile(0.99) / 1000, Unit: "s", Note: fmt.Sprintf("%d edits; including the start, which took %.2f s", len(before), r.ready.Seconds())},
	}
	if len(duringBacklog) == 0 { // with few applications the backlog is processed before the next edit
		p.logProgress("no edit during the backlog, which was processed after %s", backlog)
		return figures, r.externalCores
	}
	return append(figures, results.Figure{Row: "P6", Name: "edit p99 in the backlog", Value: duringBacklog.percentile(0.99) / 1000, Unit: "s", Note: fmt.Sprintf("%d edits between ready and %.1f s after the start, when a restart without load is synced; accepted to Deployment", len(duringBacklog), backlog.Seconds())}.WithBounds(must, goal)), r.externalCores
}
