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

// touchOf is a label of a domain that is not ours: nobody acts on it. Annotations would be
// another matter, the controller-manager copies those of a Deployment.
const touchOf = `{"metadata":{"labels":{"bench.example.org/touched":"yes"}}}`

// measureStorm touches everything and sees what the operator makes of it.
func (p *population) measureStorm() []results.Figure {
	p.Helper()
	listener := p.bareInformers()
	p.rest()
	all := p.touchable()
	requests, used, floor, start := p.asked(), p.usage(), cpu(p, listener.Pid()), time.Now()
	var took time.Duration
	p.profiled("storm", func() {
		p.touch(all)
		took = time.Since(start)
	})
	p.rest()
	p.idle(listener.Pid())
	used, floor = p.usage().since(used), cpu(p, listener.Pid())-floor
	used["informers"] = floor // they are no strangers
	others := used.disturbance() / time.Since(start).Seconds()
	requests = p.asked().since(requests)
	p.must(listener.Stop(10 * time.Second))
	p.say("touched %d objects in %s", len(all), took)
	p.stillListens()
	events := float64(len(all))
	const goal = 50 // µs
	return []results.Figure{
		results.Figure{Row: "P7", Name: "reads", Got: float64(requests.reads), Note: fmt.Sprintf("%d objects got a label that says nothing, %.0f per s", len(all), events/took.Seconds())}.AtMost(0, 0),
		results.Figure{Row: "P7", Name: "writes", Got: float64(requests.writes), Note: fmt.Sprintf("%d watches ended meanwhile and were opened again", requests.watches)}.AtMost(0, 0),
		results.Figure{Row: "P7", Name: "CPU per event", Got: 1e6 * used[contenderCPU] / events, Unit: "µs", Note: fmt.Sprintf("what the operator needs when idle is in it; others used %.1f cores", others)}.Towards(goal),
		{Row: "P7", Name: "CPU per event of bare informers", Got: 1e6 * floor / events, Unit: "µs", Note: "the same three kinds into a cache, and nobody who listens"},
		{Row: "P7", Name: "CPU, ours / bare informers", Got: used[contenderCPU] / floor, Note: "both heard the same events at the same time"},
	}
}

// touchable are all AppServices, and the Deployments and Services of the population.
func (p *population) touchable() []*metav1.PartialObjectMetadata {
	p.Helper()
	var all []*metav1.PartialObjectMetadata
	for _, kind := range ofPopulation[:3] {
		n := 0
		p.eachOf(kind, func(m *metav1.PartialObjectMetadata) {
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
	for range creators {
		group.Go(func() {
			for one := range todo {
				if err := p.Patch(p.Context(), one, client.RawPatch(types.MergePatchType, []byte(touchOf))); err != nil {
					p.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// stillListens shows that the silence was not that of somebody who hears nothing, and that the
// API server counts.
func (p *population) stillListens() {
	p.Helper()
	before := p.asked()
	user := p.newEdits("storm")
	user.make(1)
	user.wait(1)
	if p.asked().since(before).writes == 0 {
		p.Error("the operator wrote a Deployment and the API server counted nothing")
	}
}
