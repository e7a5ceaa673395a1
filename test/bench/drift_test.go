package bench

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

const driftsPerSecond = 5

// What somebody else puts in the place of what the operator holds.
const (
	foreignImage = "somebody/else:1"
	foreignPort  = 9999
)

// drift is something that another client does to a child.
type drift struct {
	name  string
	child func(metav1.ObjectMeta) client.Object
	patch string // "" deletes it
}

func aDeployment(meta metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: meta} }
func aService(meta metav1.ObjectMeta) client.Object    { return &corev1.Service{ObjectMeta: meta} }

// drifts take turns.
var drifts = []drift{
	{"image of the Deployment", aDeployment, fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, foreignImage)},
	{"Deployment deleted", aDeployment, ""},
	{"port of the Service", aService, fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/0/targetPort","value":%d}]`, foreignPort)},
	{"Service deleted", aService, ""},
}

// drifting is P9: children change or vanish, and a watch tells when they are as declared
// again. What a repair costs is counted twice: by the API server while it happens, and by
// the audit log, kind by kind, on a control plane of its own.
func drifting(t *testing.T, size liveSize) []results.Figure {
	var out []results.Figure
	t.Run("latency", func(t *testing.T) { out = append(out, repairs(t, size)...) })
	t.Run("counted", func(t *testing.T) { out = append(out, repairCalls(t, size)...) })
	return out
}

func repairs(t *testing.T, size liveSize) []results.Figure {
	s := liveStage(t)
	d := newDamage(s)
	s.saturate(size.driftApps, nobody)
	s.Logf("%d drifts at %d/s", size.driftApps, driftsPerSecond)
	calls, before, start := s.calls(), s.usage(), time.Now()
	openLoop(s.Context(), driftsPerSecond, size.driftApps, func(i int, due time.Time) {
		if err := d.do(drifts[i%len(drifts)], i, due); err != nil {
			s.Error(err)
		}
	})
	d.wait()
	time.Sleep(calm) // the last events are on their way
	each := float64(s.calls()-calls) / float64(size.driftApps)
	others := s.others("P9", before, start)
	s.Logf("repairs: %s, %.2f calls each", latencies(d.sinceDue), each)
	out := latencies(d.sinceDue).figures("P9", "drift to repair")
	out[1] = out[1].AtMost(500, 50).DisturbedBy(others)
	out = append(out, latencies(d.sinceSeen).figures("P9", "drift seen to repair seen, both by the watch")...)
	return append(out,
		results.Figure{Row: "P9", Name: "all calls per repair", Got: each, Note: "status and events included; counted by the API server"}, others)
}

// damage is what was done to children and is not repaired yet.
type damage struct {
	*stage
	mu                  sync.Mutex
	open                map[string]*damaged
	sinceDue, sinceSeen []time.Duration
}

type damaged struct {
	due  time.Time
	seen time.Time // by the watch
}

func newDamage(s *stage) *damage {
	d := &damage{stage: s, open: map[string]*damaged{}}
	watching(s, &appsv1.DeploymentList{}, func(what watch.EventType, o *appsv1.Deployment) {
		d.see("Deployment/"+o.Name, what == watch.Deleted || o.Spec.Template.Spec.Containers[0].Image == foreignImage)
	})
	watching(s, &corev1.ServiceList{}, func(what watch.EventType, o *corev1.Service) {
		d.see("Service/"+o.Name, what == watch.Deleted || o.Spec.Ports[0].TargetPort.IntValue() == foreignPort)
	})
	return d
}

// see notes when the damage is seen, and when it is not seen any more.
func (d *damage) see(key string, broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.open[key]
	switch {
	case one == nil:
	case broken && one.seen.IsZero():
		one.seen = time.Now()
	case !broken && !one.seen.IsZero(): // before that it is an event about the time before
		d.sinceDue = append(d.sinceDue, time.Since(one.due))
		d.sinceSeen = append(d.sinceSeen, time.Since(one.seen))
		delete(d.open, key)
	}
}

func (d *damage) do(what drift, i int, due time.Time) error {
	app := newApp(i)
	child := what.child(metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name})
	kind := strings.TrimPrefix(fmt.Sprintf("%T", child), "*v1.")
	d.mu.Lock()
	d.open[kind+"/"+app.Name] = &damaged{due: due}
	d.mu.Unlock()
	if what.patch == "" {
		return d.Delete(d.Context(), child)
	}
	return d.Patch(d.Context(), child, client.RawPatch(types.JSONPatchType, []byte(what.patch)), client.FieldOwner("somebody-else"))
}

func (d *damage) wait() {
	d.Helper()
	d.eventually("repairs", func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		for key, one := range d.open {
			return fmt.Sprintf("%d are open, %s is (seen: %t)", len(d.open), key, !one.seen.IsZero())
		}
		return ""
	})
}

// repairCalls reads from the audit log what a repair of each kind costs.
func repairCalls(t *testing.T, size liveSize) []results.Figure {
	s := newStage(t, controlplane.Options{Audit: true})
	log, err := audit.Open(s.plane.AuditLog())
	s.must(err)
	d := newDamage(s)
	s.op = operator.Start(t, s.plane, operator.Options{Fast: true})
	n := size.driftCounted
	s.createApps(0, n*len(drifts), nobody)
	s.waitAll(n * len(drifts))
	time.Sleep(calm)
	var out []results.Figure
	writes, reads := 0.0, 0.0
	for k, what := range drifts {
		from, err := log.Mark(s.Context(), s.plane.Config)
		s.must(err)
		openLoop(s.Context(), driftsPerSecond, n, func(i int, due time.Time) {
			if err := d.do(what, k*n+i, due); err != nil {
				s.Error(err)
			}
		})
		d.wait()
		time.Sleep(calm)
		events, err := log.Since(s.Context(), s.plane.Config, from)
		s.must(err)
		cost := costOf(events.By(operator.User), n)
		s.Logf("%s: %s", what.name, cost)
		writes, reads = writes+float64(cost.writes)/float64(n), reads+float64(cost.reads)/float64(n)
		out = append(out, results.Figure{Row: "P9", Name: "calls per repair, " + what.name, Got: cost.repair(), Note: cost.String()})
	}
	kinds := float64(len(drifts))
	return append(out,
		results.Figure{Row: "P9", Name: "writes per repair", Got: writes / kinds, Note: "the mean of these four; a write is refused, and made again, when the controller-manager was faster"}.AtMost(1, 1),
		results.Figure{Row: "P9", Name: "reads per repair", Got: reads / kinds, Note: "of a deleted child only: whether it lost a label or is gone, and whether its owner is still there"})
}

// cost is what was asked for in n repairs. A write is refused when somebody else, usually
// the controller-manager, was faster.
type cost struct{ n, writes, refused, reads, status, events int }

func costOf(requests audit.Events, n int) cost {
	c := cost{n: n}
	for i := range requests {
		switch e := &requests[i]; {
		case e.Verb == "watch": // taken up again, which has nothing to do with repairs
		case e.Resource() == "events.events.k8s.io":
			c.events++
		case strings.HasSuffix(e.Resource(), "/status"):
			c.status++
		case e.Write() && !e.Accepted():
			c.refused++
		case e.Write():
			c.writes++
		default:
			c.reads++
		}
	}
	return c
}

// repair is what it takes to make a child as declared again, without telling people.
func (c cost) repair() float64 { return float64(c.writes+c.refused+c.reads) / float64(c.n) }

func (c cost) String() string {
	return fmt.Sprintf("in %d: %d writes of children, %d refused, %d reads; beside that %d of status, %d events", c.n, c.writes, c.refused, c.reads, c.status, c.events)
}
