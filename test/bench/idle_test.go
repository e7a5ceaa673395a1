package bench

import (
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// measureIdle looks at an operator that has nothing to do.
func (p *population) measureIdle(d time.Duration) []results.Figure {
	p.Helper()
	p.rest()
	objects, renewals := p.snapshot(), p.countLeases()
	p.rest()
	written := func() int { return p.revision() - int(renewals.Load()) }
	requests, revision := p.asked(), written()
	seconds, start := cpu(p, p.op.Pid()), time.Now()
	p.say("idle for %s", d)
	for left := d; left > 0; left -= time.Minute {
		time.Sleep(min(left, time.Minute))
	}
	took := time.Since(start).Seconds()
	seconds = cpu(p, p.op.Pid()) - seconds
	requests = p.asked().since(requests)
	perMinute := 60 * float64(written()-revision) / time.Since(start).Seconds()
	changed := p.snapshot().changedSince(objects)
	alone := p.withoutOperator(written)
	const must, goal = 20, 5 // mcore
	during := fmt.Sprintf("%d at rest for %s", p.size, d)
	return []results.Figure{
		results.Figure{Row: "P5", Name: "reads", Got: float64(requests.reads), Note: during}.AtMost(0, 0),
		results.Figure{Row: "P5", Name: "writes", Got: float64(requests.writes), Note: "no leader election"}.AtMost(0, 0),
		{Row: "P5", Name: "watches", Got: float64(requests.watches), Note: "client-go ends each after 5 to 10 min and goes on where it was"},
		results.Figure{Row: "P5", Name: "objects changed", Got: float64(len(changed)), Note: "of what the operator writes, and events"}.AtMost(0, 0),
		{Row: "P5", Name: "etcd revisions per min", Got: perMinute, Note: fmt.Sprintf("Leases left out; %.3g without an operator", alone)},
		results.Figure{Row: "P5", Name: "CPU", Got: 1000 * seconds / took, Unit: "mcore", Note: "counted in 10 ms"}.AtMost(must, goal),
	}
}

// withoutOperator is how many revisions the control plane makes per minute by itself.
func (p *population) withoutOperator(written func() int) float64 {
	p.Helper()
	p.must(p.op.Stop(10 * time.Second))
	before, start := written(), time.Now()
	time.Sleep(30 * time.Second)
	perMinute := 60 * float64(written()-before) / time.Since(start).Seconds()
	p.must(p.op.Start())
	p.must(p.op.WaitReady(p.Context()))
	return perMinute
}

// countLeases counts writes of Leases from now on.
func (p *population) countLeases() *atomic.Int64 {
	p.Helper()
	var leases coordinationv1.LeaseList
	p.must(p.List(p.Context(), &leases))
	stream, err := p.Watch(p.Context(), &leases, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: leases.ResourceVersion}})
	p.must(err)
	p.Cleanup(stream.Stop)
	var n atomic.Int64
	go func() {
		for range stream.ResultChan() {
			n.Add(1)
		}
	}()
	return &n
}
