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

// betweenEdits is the pause between two users, however long the one before takes.
const betweenEdits = 100 * time.Millisecond

// edit is one change of an image by a user.
type edit struct {
	app, image string
	sent       time.Time
	accepted   time.Time // the API server has answered
	done       time.Time // an independent watch has seen the Deployment with the image
}

// latency is from the answer on: a Deployment that is seen before took no time.
func (e *edit) latency() time.Duration { return max(0, e.done.Sub(e.accepted)) }

// edits are those of one scenario, each of another AppService.
type edits struct {
	*population
	label string
	order []int // of AppServices

	mu   sync.Mutex
	all  map[string]*edit // by AppService
	left chan struct{}    // one for each edit that is done
}

// newEdits begins to watch Deployments. Images are named after the label and the time, so that
// they are new ones.
func (p *population) newEdits(label string) *edits {
	p.Helper()
	e := &edits{population: p, label: fmt.Sprintf("%s-%d", label, time.Now().UnixMilli()), order: rand.Perm(p.size), all: map[string]*edit{}, left: make(chan struct{}, p.size)}
	var now appsv1.DeploymentList
	p.must(p.List(p.Context(), &now, client.Limit(1)))
	stream, err := p.Watch(p.Context(), &appsv1.DeploymentList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: now.ResourceVersion}})
	p.must(err)
	p.Cleanup(stream.Stop)
	go func() {
		for event := range stream.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				e.see(d)
			}
		}
	}()
	return e
}

func (e *edits) see(d *appsv1.Deployment) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.all[d.Name]
	if one != nil && one.done.IsZero() && d.Spec.Template.Spec.Containers[0].Image == one.image {
		one.done = now
		e.left <- struct{}{}
	}
}

// make makes n edits, one after each pause, until the last is accepted.
func (e *edits) make(n int) {
	tick := time.NewTicker(betweenEdits)
	defer tick.Stop()
	var users sync.WaitGroup
	for i := range n {
		if i > 0 {
			<-tick.C
		}
		users.Go(func() { e.one(e.order[i]) })
	}
	users.Wait()
}

func (e *edits) one(i int) {
	app := newApp(i)
	one := &edit{app: app.Name, image: "shop/web:" + e.label, sent: time.Now()}
	e.mu.Lock()
	e.all[app.Name] = one
	e.mu.Unlock()
	body := fmt.Sprintf(`{"spec":{"image":%q}}`, one.image)
	err := e.Patch(e.Context(), app, client.RawPatch(types.MergePatchType, []byte(body)))
	accepted := time.Now()
	if err != nil {
		e.Errorf("edit %s: %v", app.Name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	one.accepted = accepted
}

// wait returns when n edits have arrived at their Deployments.
func (e *edits) wait(n int) {
	e.Helper()
	deadline := time.After(patience)
	for i := range n {
		select {
		case <-e.left:
		case <-deadline:
			e.Fatalf("%d of %d edits arrived within %s", i, n, patience)
		}
	}
}

// latencies are those of the edits that were sent within a time. The slowest is told:
// it is the first thing to ask about.
func (e *edits) latencies(from, to time.Time) latencies {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out latencies
	var slowest *edit
	for _, one := range e.all {
		if one.sent.Before(from) || !one.sent.Before(to) {
			continue
		}
		out = append(out, one.latency())
		if slowest == nil || one.latency() > slowest.latency() {
			slowest = one
		}
	}
	if slowest != nil {
		e.say("slowest of %d edits: %s, sent at %s, accepted after %s, done after another %s",
			len(out), slowest.app, slowest.sent.Format("15:04:05.000"), slowest.accepted.Sub(slowest.sent), slowest.latency())
	}
	return out
}

// accepting is how long the API server took to accept what was sent since then.
func (e *edits) accepting(since time.Time) latencies {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out latencies
	for _, one := range e.all {
		if !one.sent.Before(since) {
			out = append(out, one.accepted.Sub(one.sent))
		}
	}
	return out
}
