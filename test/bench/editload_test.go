package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// editInterval is the pause between two edits, independent of the duration of the previous one.
const editInterval = 100 * time.Millisecond

// edit is one change of an image by a user.
type edit struct {
	app, image string
	sent       time.Time
	accepted   time.Time // response of the API server
	observed   time.Time // an independent watch observed the Deployment with the image
}

// latency is the time from the response; a Deployment that is observed earlier has latency 0.
func (e *edit) latency() time.Duration { return max(0, e.observed.Sub(e.accepted)) }

// editLoad is the edits of one scenario, each of another AppService.
type editLoad struct {
	*population
	label string
	order []int // of AppServices

	mu         sync.Mutex
	byApp      map[string]*edit // by AppService
	observedCh chan struct{}    // one value for each completed edit
}

// newEditLoad starts a watch of Deployments. Image names contain the label and the time, so that they are unique.
func (p *population) newEditLoad(label string) *editLoad {
	p.Helper()
	e := &editLoad{population: p, label: fmt.Sprintf("%s-%d", label, time.Now().UnixMilli()), order: rand.Perm(p.size), byApp: map[string]*edit{}, observedCh: make(chan struct{}, p.size)}
	var now appsv1.DeploymentList
	p.must(p.List(p.Context(), &now, client.Limit(1)))
	stream, err := p.Watch(p.Context(), &appsv1.DeploymentList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: now.ResourceVersion}})
	p.must(err)
	p.Cleanup(stream.Stop)
	go func() {
		for event := range stream.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				e.observe(d)
			}
		}
	}()
	return e
}

func (e *editLoad) observe(d *appsv1.Deployment) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	entry := e.byApp[d.Name]
	if entry != nil && entry.observed.IsZero() && d.Spec.Template.Spec.Containers[0].Image == entry.image {
		entry.observed = now
		e.observedCh <- struct{}{}
	}
}

// sendAll makes n edits with pauses, until the last is accepted.
func (e *editLoad) sendAll(n int) {
	tick := time.NewTicker(editInterval)
	defer tick.Stop()
	var users sync.WaitGroup
	for i := range n {
		if i > 0 {
			<-tick.C
		}
		users.Go(func() { e.sendOne(e.order[i]) })
	}
	users.Wait()
}

func (e *editLoad) sendOne(i int) {
	app := newApp(i)
	entry := &edit{app: app.Name, image: "shop/web:" + e.label, sent: time.Now()}
	e.mu.Lock()
	e.byApp[app.Name] = entry
	e.mu.Unlock()
	body := fmt.Sprintf(`{"spec":{"image":%q}}`, entry.image)
	err := e.Patch(e.Context(), app, client.RawPatch(types.MergePatchType, []byte(body)))
	accepted := time.Now()
	if err != nil {
		e.Errorf("edit %s: %v", app.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	entry.accepted = accepted
}

// waitObserved waits until n edits are observed in their Deployments.
func (e *editLoad) waitObserved(n int) {
	e.Helper()
	deadline := time.After(waitTimeout)
	for i := range n {
		select {
		case <-e.observedCh:
		case <-deadline:
			e.Fatalf("%d of %d edits were observed within %s", i, n, waitTimeout)
		}
	}
}

// latencies returns the latencies of the edits sent in a period, and logs the slowest.
func (e *editLoad) latencies(from, to time.Time) latencies {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out latencies
	var slowest *edit
	for _, entry := range e.byApp {
		if entry.sent.Before(from) || !entry.sent.Before(to) {
			continue
		}
		out = append(out, entry.latency())
		if slowest == nil || entry.latency() > slowest.latency() {
			slowest = entry
		}
	}
	if slowest != nil {
		e.logProgress("slowest of %d edits: %s, sent at %s, accepted after %s, done after another %s",
			len(out), slowest.app, slowest.sent.Format("15:04:05.000"), slowest.accepted.Sub(slowest.sent), slowest.latency())
	}
	return out
}

// acceptLatencies returns how long the API server took to accept edits since a time.
func (e *editLoad) acceptLatencies(since time.Time) latencies {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out latencies
	for _, entry := range e.byApp {
		if !entry.sent.Before(since) {
			out = append(out, entry.accepted.Sub(entry.sent))
		}
	}
	return out
}
