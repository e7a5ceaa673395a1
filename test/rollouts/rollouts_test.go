// Package rollouts looks at applications in every state of ordinary work, and finds nothing
// wrong with them: a cause that is not one is worse than none.
package rollouts

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
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

// TestNoFalseCause looks at all of them again and again while they are created, changed in
// every way and deleted.
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
	names := make([]string, *apps)
	for i := range names {
		names[i] = fmt.Sprintf("shop-%d", i)
	}
	start := time.Now()
	all(t, names, func(name string) error { return create(w, name) })
	ready(w, names)
	t.Logf("%6.1f s  created", time.Since(start).Seconds())
	for _, work := range works {
		all(t, names, func(name string) error {
			return w.Patch(ctx, stackOf(w, name), client.RawPatch(types.JSONPatchType, []byte(work.patch)))
		})
		ready(w, names)
		t.Logf("%6.1f s  %s", time.Since(start).Seconds(), work.name)
	}
	all(t, names, func(name string) error { return w.Delete(ctx, stackOf(w, name)) })
	w.Eventually(func() int {
		var list appsapi.AppStackList
		w.Expect(w.List(ctx, &list, client.InNamespace(w.NS))).To(Succeed())
		return len(list.Items)
	}, "120s", "200ms").Should(BeZero())
	cancel()
	watchers.Wait()
	j.tell(start)
}

func stackOf(w *stage.World, name string) *appsapi.AppStack {
	app := &appsapi.AppStack{}
	app.Namespace, app.Name = w.NS, name
	return app
}

func create(w *stage.World, name string) error {
	app := stackOf(w, name)
	if err := yaml.UnmarshalStrict([]byte(spec), &app.Spec); err != nil {
		return err
	}
	return w.Create(w.Context(), app)
}

// all does something with every application.
func all(t *testing.T, names []string, do func(string) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for _, name := range names {
		group.Go(func() error { return do(name) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func ready(w *stage.World, names []string) {
	w.Helper()
	for _, name := range names {
		app := stackOf(w, name)
		w.Eventually(func() string { return w.Condition(app, "Ready") }, "180s", "100ms").Should(HavePrefix("True/Reconciled"), name)
	}
}

// judge counts what is said.
type judge struct {
	*testing.T
	client client.Client

	mu            sync.Mutex
	looks, writes int
	// states are those that components were seen in.
	states map[string]int
	false  []string
}

// look asks as the plugin does, one application after the other.
func (j *judge) look(ctx context.Context, namespace string) {
	for i := 0; ctx.Err() == nil; i++ {
		app, err := cli.Find(ctx, j.client, namespace, []string{fmt.Sprintf("appstack/shop-%d", time.Now().UnixNano()%int64(*apps))})
		if err != nil {
			time.Sleep(100 * time.Millisecond) // not made yet, or gone
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
