// Package falsepositives checks that no cause is reported while applications go through routine changes.
package falsepositives

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
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

var appCount = flag.Int("apps", 4, "number of applications")

// parallelism limits concurrent applications. More would overload a small machine, and then reported causes would be
// true.
const parallelism = 12

func TestMain(m *testing.M) { harness.Main(m) }

// stackSpec uses a job, storage, dependent services, files, a Service, a slow image and all probes.
const stackSpec = `
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

// routineChanges are everyday changes of an application.
var routineChanges = []struct{ name, patch string }{
	{"a new image", `[{"op":"replace","path":"/spec/components/2/service/image","value":"shop/api:slow2"}]`},
	{"another file", `[{"op":"replace","path":"/spec/components/2/service/config/files/0/content","value":"two"}]`},
	{"more pods", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":4}]`},
	{"fewer pods", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":1}]`},
	{"scale to zero", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":0}]`},
	{"scale up again", `[{"op":"replace","path":"/spec/components/2/service/replicas","value":2}]`},
	{"a database restart", `[{"op":"add","path":"/spec/operations","value":[{"component":"db","restartRequestedAt":"2026-01-02T03:04:05Z"}]}]`},
	{"a larger volume", `[{"op":"replace","path":"/spec/components/0/stateful/storage/0/size","value":"2Gi"}]`},
	{"a removed component", `[{"op":"remove","path":"/spec/components/3"}]`},
}

// TestNoCauseDuringRoutineChanges inspects applications continuously while they are created, changed and deleted
// concurrently.
func TestNoCauseDuringRoutineChanges(t *testing.T) {
	behaviors := map[string]podsim.Behavior{"slow": podsim.Slow(2 * time.Second), "slow2": podsim.Slow(3 * time.Second)}
	s := harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{NoRace: true})
	w := s.NewWorld(t)
	c, err := cli.NewClient(s.Plane.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j := &causeCollector{T: t, client: c, componentStates: map[string]int{}}
	var watchers sync.WaitGroup
	watchers.Go(func() { j.watchStatuses(ctx, w) })
	for range 3 {
		watchers.Go(func() { j.inspectLoop(ctx, w.NS) })
	}
	start := time.Now()
	var lifecycles sync.WaitGroup
	slots := make(chan struct{}, parallelism)
	for i := range *appCount {
		slots <- struct{}{}
		lifecycles.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("shop-%d", i)
			t.Run(name, func(t *testing.T) { runLifecycle(w.ForTest(t), j, name) })
		})
	}
	lifecycles.Wait()
	cancel()
	watchers.Wait()
	j.report(start)
}

func newStack(w *harness.World, name string) *appsapi.AppStack {
	app := &appsapi.AppStack{}
	app.Namespace, app.Name = w.NS, name
	return app
}

// runLifecycle creates an application, applies all routine changes and deletes it.
func runLifecycle(w *harness.World, j *causeCollector, name string) {
	app := newStack(w, name)
	w.Expect(yaml.UnmarshalStrict([]byte(stackSpec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	j.setActive(name, true)
	ready := func(after string) {
		w.Eventually(func() string { return w.Condition(app, "Ready") }, "180s", "100ms").Should(HavePrefix("True/Reconciled"), after)
	}
	ready("created")
	for _, change := range routineChanges {
		w.Expect(w.Patch(w.Context(), app, client.RawPatch(types.JSONPatchType, []byte(change.patch)))).To(Succeed(), change.name)
		ready(change.name)
	}
	w.Expect(w.Delete(w.Context(), app)).To(Succeed())
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "120s", "100ms").Should(Equal("gone"))
	j.setActive(name, false)
}

// causeCollector collects the reported causes.
type causeCollector struct {
	*testing.T
	client client.Client

	mu                         sync.Mutex
	activeApps                 []string // applications to inspect
	inspections, statusUpdates int
	// componentStates counts the observed component states.
	componentStates map[string]int
	falseCauses     []string
}

// setActive adds or removes an application from the inspected ones.
func (j *causeCollector) setActive(name string, active bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if active {
		j.activeApps = append(j.activeApps, name)
		return
	}
	j.activeApps = slices.DeleteFunc(j.activeApps, func(n string) bool { return n == name })
}

// nextApp returns the applications in turn.
func (j *causeCollector) nextApp(turn int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.activeApps) == 0 {
		return "none"
	}
	return j.activeApps[turn%len(j.activeApps)]
}

// inspectLoop inspects one application after the other, as the plugin does.
func (j *causeCollector) inspectLoop(ctx context.Context, namespace string) {
	for i := 0; ctx.Err() == nil; i++ {
		app, err := cli.FindApplication(ctx, j.client, namespace, []string{"appstack/" + j.nextApp(i)})
		if err != nil {
			time.Sleep(20 * time.Millisecond) // not created yet, or deleted
			continue
		}
		status, err := collect.Application(ctx, j.client, app, false, time.Now())
		if err != nil {
			continue
		}
		j.mu.Lock()
		j.inspections++
		for _, c := range status.Components {
			j.componentStates[string(c.Health)]++
		}
		for _, c := range status.Causes {
			if c.Severity == explain.Error && c.Code != explain.DependencyWait {
				j.falseCauses = append(j.falseCauses, fmt.Sprintf("plugin: %s: %s: %s", status.Name, c.Code, c.Message))
			}
		}
		j.mu.Unlock()
	}
}

// watchStatuses reads every status update of the operator.
func (j *causeCollector) watchStatuses(ctx context.Context, w *harness.World) {
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
		j.statusUpdates++
		for _, c := range app.Status.Causes {
			j.falseCauses = append(j.falseCauses, fmt.Sprintf("status: %s: %s: %s", app.Name, c.Code, c.Message))
		}
		j.mu.Unlock()
	}
}

func (j *causeCollector) report(start time.Time) {
	j.Logf("%d applications, %d inspections and %d status updates in %.0f s; component states %v; false causes: %d",
		*appCount, j.inspections, j.statusUpdates, time.Since(start).Seconds(), j.componentStates, len(j.falseCauses))
	if j.inspections < *appCount || j.statusUpdates < *appCount {
		j.Error("too few inspections or status updates for a result")
	}
	if len(j.falseCauses) > 0 {
		j.Errorf("causes reported for healthy applications:\n%s", strings.Join(j.falseCauses[:min(len(j.falseCauses), 30)], "\n"))
	}
}
