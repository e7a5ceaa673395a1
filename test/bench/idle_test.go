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

// measureIdle measures an idle operator.
func (p *population) measureIdle(d time.Duration) []results.Figure {
	p.Helper()
	p.waitIdle()
	objects, renewals := p.snapshot(), p.countLeaseWrites()
	p.waitIdle()
	revisionsWithoutLeases := func() int { return p.etcdRevision() - int(renewals.Load()) }
	requests, revision := p.requestCounts(), revisionsWithoutLeases()
	seconds, start := cpuSeconds(p, p.op.Pid()), time.Now()
	p.logProgress("idle for %s", d)
	for left := d; left > 0; left -= time.Minute {
		time.Sleep(min(left, time.Minute))
	}
	took := time.Since(start).Seconds()
	seconds = cpuSeconds(p, p.op.Pid()) - seconds
	requests = p.requestCounts().since(requests)
	perMinute := 60 * float64(revisionsWithoutLeases()-revision) / time.Since(start).Seconds()
	changed := p.snapshot().changedSince(objects)
	baseline := p.revisionsWithoutOperator(revisionsWithoutLeases)
	const must, goal = 20, 5 // mcore
	label := fmt.Sprintf("%d idle for %s", p.size, d)
	return []results.Figure{
		results.Figure{Row: "P5", Name: "reads", Value: float64(requests.reads), Note: label}.WithBounds(0, 0),
		results.Figure{Row: "P5", Name: "writes", Value: float64(requests.writes), Note: "no leader election"}.WithBounds(0, 0),
		{Row: "P5", Name: "watches", Value: float64(requests.watches), Note: "client-go reopens each after 5 to 10 min"},
		results.Figure{Row: "P5", Name: "objects changed", Value: float64(len(changed)), Note: "of the kinds that the operator writes, and events"}.WithBounds(0, 0),
		{Row: "P5", Name: "etcd revisions per min", Value: perMinute, Note: fmt.Sprintf("without Leases; %.3g without an operator", baseline)},
		results.Figure{Row: "P5", Name: "CPU", Value: 1000 * seconds / took, Unit: "mcore", Note: "counted in 10 ms"}.WithBounds(must, goal),
	}
}

// revisionsWithoutOperator returns the revisions per minute of an idle control plane.
func (p *population) revisionsWithoutOperator(revisions func() int) float64 {
	p.Helper()
	p.must(p.op.Stop(10 * time.Second))
	before, start := revisions(), time.Now()
	time.Sleep(30 * time.Second)
	perMinute := 60 * float64(revisions()-before) / time.Since(start).Seconds()
	p.must(p.op.Start())
	p.must(p.op.WaitReady(p.Context()))
	return perMinute
}

func (p *population) countLeaseWrites() *atomic.Int64 {
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
