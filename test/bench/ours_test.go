package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// calm lets a control plane that has just started come to rest.
const calm = 2 * time.Second

// measureOurs lets the operator do everything, and weighs it.
func measureOurs(t *testing.T) sample {
	s := newStage(t, false)
	var out sample
	out.HeapEmptyMB = s.weigh()
	op := operator.Start(t, s.plane, operator.Options{Fast: true})
	time.Sleep(calm)
	s.op = op
	before := s.usage()
	start := time.Now()
	s.createApps(0, *apps, func(*appsapi.AppService) {})
	s.waitAll(*apps)
	out.WallSeconds = time.Since(start).Seconds()
	out.AllSeconds = out.WallSeconds
	time.Sleep(calm) // the last events are on their way
	out.CPUSeconds = s.usage().since(before)
	s.complete(*apps)
	out.LatencyP50, out.LatencyP99 = s.seen.quantile(0.50), s.seen.quantile(0.99)
	out.PeakRSSMB, out.RSSMB = memory(t, op.Pid())
	s.op = nil
	s.must(op.Stop(10 * time.Second))
	out.HeapFullMB = s.weigh()
	return out
}

// weigh runs an operator that collects its garbage all the time, and reads from its trace
// what is live when it has come to rest. It needs nothing of the operator but Go.
func (s *stage) weigh() float64 {
	s.Helper()
	op := operator.New(s, s.plane, operator.Options{Fast: true})
	op.Env = append(op.Env, "GODEBUG=gctrace=1", "GOGC=5")
	s.must(op.Start())
	s.must(op.WaitReady(s.Context()))
	s.idle(op.Pid())
	live := lastLiveHeap(s, op.Log)
	s.must(op.Stop(10 * time.Second))
	return live
}

// idle returns when a process has used next to no CPU for a second.
func (s *stage) idle(pid int) {
	s.Helper()
	last := cpu(s, pid)
	for range int(patience / time.Second) {
		time.Sleep(time.Second)
		now := cpu(s, pid)
		if now-last < 0.02 {
			return
		}
		last = now
	}
	s.Fatal("the operator does not come to rest")
}

func (r *readyWatch) quantile(q float64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []time.Duration
	for _, d := range r.ready {
		all = append(all, d)
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))].Seconds()
}

// countedPass counts the requests of both contenders and keeps the operator's bodies.
func countedPass(t *testing.T, r *report) *templates {
	s := newStage(t, true)
	log, err := audit.Open(s.plane.AuditLog())
	s.must(err)
	op := operator.Start(t, s.plane, operator.Options{Fast: true})
	requests := func(f func()) audit.Events {
		from, err := log.Mark(t.Context(), s.plane.Config)
		s.must(err)
		f()
		all, err := log.Since(t.Context(), s.plane.Config, from)
		s.must(err)
		return all.By(operator.User)
	}
	var first *appsapi.AppService
	ours := requests(func() {
		s.createApps(0, *counted, func(app *appsapi.AppService) {
			if app.Name == newApp(0).Name {
				first = app
			}
		})
		s.waitAll(*counted)
		time.Sleep(calm)
	})
	s.must(op.Stop(10 * time.Second))
	r.count("ours", ours)
	bodies := bodiesOf(t, first, ours)
	r.count("bare", requests(func() { s.runBare(newBare(s, bodies), *counted, 2**counted) }))
	s.complete(2 * *counted)
	return bodies
}

// bodiesOf finds what the operator sent for one AppService.
func bodiesOf(t *testing.T, app *appsapi.AppService, requests audit.Events) *templates {
	of := func(resource string) []string {
		var bodies []string
		for _, e := range requests.Writes().Of(resource).In(app.Namespace) {
			if e.ObjectRef.Name == app.Name || strings.HasPrefix(e.ObjectRef.Name, app.Name+".") { // events are named after it
				bodies = append(bodies, string(e.RequestObject))
			}
		}
		return bodies
	}
	deployments, services := of("deployments.apps"), of("services")
	status, events := of("appservices.apps.holdfast.dev/status"), of("events.events.k8s.io")
	if len(deployments) != 1 || len(services) != 1 || len(status) < 2 || len(events) < 2 {
		t.Fatalf("%s took %d, %d, %d and %d writes of Deployment, Service, status and events",
			app.Name, len(deployments), len(services), len(status), len(events))
	}
	return &templates{
		app: app, deployment: deployments[0], service: services[0],
		status: [2]string{status[0], status[len(status)-1]}, events: [2]string{events[0], events[len(events)-1]},
	}
}
