// Package rollouts looks at applications in every state of ordinary work, and finds nothing
// wrong with them: a cause that is not one is worse than none.
package rollouts

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

var apps = flag.Int("apps", 4, "how many applications there are")

// atOnce is how many of them are worked on at the same time. More of them only show that a
// small machine is slow, and a cause that says so is true.
const atOnce = 12

func TestMain(m *testing.M) { stage.Main(m) }

// spec is a stack of everything: a job, data, services that depend on each other, files, a
// Service, an init container and all probes.
const spec = `
components:
- {name: db, stateful: {image: "shop/db:slow", storage: [{name: data, mountPath: /data, size: 1Gi}], ports: [{port: 3306}]}}
- {name: migrate, dependsOn: [db], job: {image: "shop/migrate:1"}}
- name: api
  dependsOn: [migrate]
  service:
    image: "shop/api:slow"
    replicas: 2
    ports: [{port: 8080}]
    probes: {startup: {tcpSocket: {port: 8080}}, liveness: {tcpSocket: {port: 8080}}}
    config: {files: [{path: /etc/a, content: one}]}
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80}]}}
`

// works are what people do with an application every day.
var works = []struct{ name, patch string }{
	{"a new image", `[{"op":"replace","path":"/spec/components/2/service/image","value":"shop/api:slow2"}]`},
	{"another file", `[{"op":"replace","path":"/spec/components/2/service/config/files/0/content","value":"two"}]`},
	{"more pods", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":4}]`},
	{"fewer pods", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":1}]`},
	{"none", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":0}]`},
	{"some again", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":2}]`},
	{"a restart of the data", `[{"op":"add","path":"/spec/components/0/stateful/update","value":{"restartedAt":"2026-01-02T03:04:05Z"}}]`},
	{"a larger volume", `[{"op":"replace","path":"/spec/components/0/stateful/storage/0/size","value":"2Gi"}]`},
	{"one component less", `[{"op":"remove","path":"/spec/components/3"}]`},
}

// TestNoFalseCause looks at applications again and again while they are created, changed in
// every way and deleted, each at its own pace.
func TestNoFalseCause(t *testing.T) {
	behaviors := map[string]podsim.Behavior{"slow": podsim.Slow(2 * time.Second), "slow2": podsim.Slow(3 * time.Second)}
	s := stage.New(t, stage.ByTag(behaviors), operator.Options{Fast: true})
	w := s.World(t)
	c, err := cli.NewClient(s.Plane.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j := &judge{T: t, client: c, states: map[string]int{}}
	var watchers sync.WaitGroup
	watchers.Go(func() { j.statuses(ctx, w) })
	for range 3 {
		watchers.Go(func() { j.look(ctx, w.NS) })
	}
	start := time.Now()
	var crowd sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range *apps {
		places <- struct{}{}
		crowd.Go(func() {
			defer func() { <-places }()
			name := fmt.Sprintf("shop-%d", i)
			t.Run(name, func(t *testing.T) { live(w.On(t), j, name) })
		})
	}
	crowd.Wait()
	cancel()
	watchers.Wait()
	j.tell(start)
}

func stackOf(w *stage.World, name string) *appsapi.AppStack {
	app := &appsapi.AppStack{}
	app.Namespace, app.Name = w.NS, name
	return app
}

// live creates an application, does all works with it and deletes it.
func live(w *stage.World, j *judge, name string) {
	app := stackOf(w, name)
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	j.about(name, true)
	ready := func(after string) {
		w.Eventually(func() string { return w.Condition(app, "Ready") }, "180s", "100ms").Should(HavePrefix("True/Reconciled"), after)
	}
	ready("created")
	for _, work := range works {
		w.Expect(w.Patch(w.Context(), app, client.RawPatch(types.JSONPatchType, []byte(work.patch)))).To(Succeed(), work.name)
		ready(work.name)
	}
	w.Expect(w.Delete(w.Context(), app)).To(Succeed())
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "120s", "100ms").Should(Equal("gone"))
	j.about(name, false)
}

// judge counts what is said.
type judge struct {
	*testing.T
	client client.Client

	mu            sync.Mutex
	there         []string // applications to look at
	looks, writes int
	// states are those that components were seen in.
	states map[string]int
	false  []string
}

// about says whether there is an application.
func (j *judge) about(name string, there bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if there {
		j.there = append(j.there, name)
		return
	}
	j.there = slices.DeleteFunc(j.there, func(n string) bool { return n == name })
}

// next is the application to look at: each in turn.
func (j *judge) next(turn int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.there) == 0 {
		return "none"
	}
	return j.there[turn%len(j.there)]
}

// look asks as the plugin does, about one application after the other.
func (j *judge) look(ctx context.Context, namespace string) {
	for i := 0; ctx.Err() == nil; i++ {
		app, err := cli.Find(ctx, j.client, namespace, []string{"appstack/" + j.next(i)})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // not made yet, or gone
			continue
		}
		l, err := look.At(ctx, j.client, app, false, time.Now())
		if err != nil {
			continue
		}
		j.mu.Lock()
		j.looks++
		for _, c := range l.Components {
			j.states[string(c.Health)]++
		}
		for _, c := range l.Causes {
			if c.Severity == explain.Error && c.Code != explain.DependencyWait {
				j.false = append(j.false, fmt.Sprintf("plugin: %s: %s: %s", l.Name, c.Code, c.Sentence))
			}
		}
		j.mu.Unlock()
	}
}

// statuses reads everything that the operator writes.
func (j *judge) statuses(ctx context.Context, w *stage.World) {
	c, err := cli.NewWatchClient(w.Plane.Config)
	if err != nil {
		j.Error(err)
		return
	}
	stream, err := c.Watch(ctx, &appsapi.AppStackList{}, client.InNamespace(w.NS))
	if err != nil {
		j.Error(err)
		return
	}
	for e := range stream.ResultChan() {
		app, ok := e.Object.(*appsapi.AppStack)
		if !ok || e.Type == watch.Deleted {
			continue
		}
		j.mu.Lock()
		j.writes++
		for _, c := range app.Status.Causes {
			j.false = append(j.false, fmt.Sprintf("status: %s: %s: %s", app.Name, c.Code, c.Message))
		}
		j.mu.Unlock()
	}
}

func (j *judge) tell(start time.Time) {
	j.Logf("%d applications, %d looks and %d states of their objects in %.0f s; components were %v; false causes: %d",
		*apps, j.looks, j.writes, time.Since(start).Seconds(), j.states, len(j.false))
	if j.looks < *apps || j.writes < *apps {
		j.Error("that is not enough to say anything")
	}
	if len(j.false) > 0 {
		j.Errorf("nothing is wrong, and yet:\n%s", strings.Join(j.false[:min(len(j.false), 30)], "\n"))
	}
}
