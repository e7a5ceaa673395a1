package bench

import (
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// touchPatch sets a label of another domain, which has no effect. An annotation would have: the controller-manager
// copies annotations of Deployments.
const touchPatch = `{"metadata":{"labels":{"bench.example.org/touched":"yes"}}}`

// measureEventStorm updates all objects and measures the load of the operator.
func (p *population) measureEventStorm() []results.Figure {
	p.Helper()
	informers := p.startBareInformers()
	p.waitIdle()
	all := p.touchableObjects()
	requests, used, informerCPU, start := p.requestCounts(), p.usage(), cpuSeconds(p, informers.Pid()), time.Now()
	var took time.Duration
	p.withProfile("storm", func() {
		p.touch(all)
		took = time.Since(start)
	})
	p.waitIdle()
	p.waitProcessIdle(informers.Pid())
	used, informerCPU = p.usage().since(used), cpuSeconds(p, informers.Pid())-informerCPU
	used["informers"] = informerCPU // they are part of the measurement
	externalCores := used.external() / time.Since(start).Seconds()
	requests = p.requestCounts().since(requests)
	p.must(informers.Stop(10 * time.Second))
	p.logProgress("touched %d objects in %s", len(all), took)
	p.verifyStillReconciling()
	events := float64(len(all))
	const goal = 50 // µs
	return []results.Figure{
		results.Figure{Row: "P7", Name: "reads", Value: float64(requests.reads), Note: fmt.Sprintf("%d objects got an irrelevant label, %.0f per s", len(all), events/took.Seconds())}.WithBounds(0, 0),
		results.Figure{Row: "P7", Name: "writes", Value: float64(requests.writes), Note: fmt.Sprintf("%d watches were reopened meanwhile", requests.watches)}.WithBounds(0, 0),
		results.Figure{Row: "P7", Name: "CPU per event", Value: 1e6 * used[contenderCPU] / events, Unit: "µs", Note: fmt.Sprintf("including the idle load of the operator; other processes used %.1f cores", externalCores)}.WithGoal(goal),
		{Row: "P7", Name: "CPU per event of bare informers", Value: 1e6 * informerCPU / events, Unit: "µs", Note: "the same three kinds in a cache, without handlers"},
		{Row: "P7", Name: "CPU, ours / bare informers", Value: used[contenderCPU] / informerCPU, Note: "both received the same events at the same time"},
	}
}

// touchableObjects returns all AppServices, Deployments and Services of the population.
func (p *population) touchableObjects() []*metav1.PartialObjectMetadata {
	p.Helper()
	var all []*metav1.PartialObjectMetadata
	for _, kind := range populationListKinds[:3] {
		n := 0
		p.forEachObject(kind, func(m *metav1.PartialObjectMetadata) {
			if strings.HasPrefix(m.Namespace, "bench-") {
				one := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
				one.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: strings.TrimSuffix(kind.Kind, "List")})
				all, n = append(all, one), n+1
			}
		})
		if n != p.size {
			p.Fatalf("%d of %s, want %d", n, kind.Kind, p.size)
		}
	}
	return all
}

func (p *population) touch(all []*metav1.PartialObjectMetadata) {
	todo := make(chan *metav1.PartialObjectMetadata, len(all))
	for _, one := range all {
		todo <- one
	}
	close(todo)
	var group sync.WaitGroup
	for range createWorkers {
		group.Go(func() {
			for one := range todo {
				if err := p.Patch(p.Context(), one, client.RawPatch(types.MergePatchType, []byte(touchPatch))); err != nil {
					p.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// verifyStillReconciling checks that the operator still receives events, and that the API server counts requests.
func (p *population) verifyStillReconciling() {
	p.Helper()
	before := p.requestCounts()
	load := p.newEditLoad("storm")
	load.sendAll(1)
	load.waitObserved(1)
	if p.requestCounts().since(before).writes == 0 {
		p.Error("the operator wrote a Deployment, but the API server counted no request")
	}
}
