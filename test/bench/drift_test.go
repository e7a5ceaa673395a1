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

// The values of the other client.
const (
	foreignImage = "somebody/else:1"
	foreignPort  = 9999
)

// drift is a change of a child by another client.
type drift struct {
	name  string
	child func(metav1.ObjectMeta) client.Object
	patch string // "" deletes the child
}

func newDeployment(meta metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: meta} }
func newService(meta metav1.ObjectMeta) client.Object    { return &corev1.Service{ObjectMeta: meta} }

// drifts are used in turn.
var drifts = []drift{
	{"image of the Deployment", newDeployment, fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, foreignImage)},
	{"Deployment deleted", newDeployment, ""},
	{"port of the Service", newService, fmt.Sprintf(`[{"op":"replace","path":"/spec/ports/0/targetPort","value":%d}]`, foreignPort)},
	{"Service deleted", newService, ""},
}

// measureDrift measures P9: children are changed or deleted, and a watch observes their correction. The cost is measured
// twice: by the API server during the load, and per kind with the audit log on a separate control plane.
func measureDrift(t *testing.T, size scenarioSize) []results.Figure {
	var out []results.Figure
	t.Run("latency", func(t *testing.T) { out = append(out, measureRepairLatency(t, size)...) })
	t.Run("counted", func(t *testing.T) { out = append(out, measureRepairCalls(t, size)...) })
	return out
}

func measureRepairLatency(t *testing.T, size scenarioSize) []results.Figure {
	s := newOperatorHarness(t)
	d := newDriftTracker(s)
	s.measureBurstRate(size.driftApps, noCallback)
	s.Logf("%d drifts at %d/s", size.driftApps, driftsPerSecond)
	calls, before, start := s.calls(), s.usage(), time.Now()
	openLoop(s.Context(), driftsPerSecond, size.driftApps, func(i int, due time.Time) {
		if err := d.inject(drifts[i%len(drifts)], i, due); err != nil {
			s.Error(err)
		}
	})
	d.waitRepaired()
	time.Sleep(settleTime) // events are asynchronous
	callsPerRepair := float64(s.calls()-calls) / float64(size.driftApps)
	external := s.externalCPU("P9", before, start)
	s.Logf("repairs: %s, %.2f calls each", latencies(d.sinceDue), callsPerRepair)
	out := latencies(d.sinceDue).figures("P9", "drift to repair")
	out[1] = out[1].WithBounds(500, 50).DisturbedBy(external)
	out = append(out, latencies(d.sinceSeen).figures("P9", "drift seen to repair seen, both by the watch")...)
	return append(out,
		results.Figure{Row: "P9", Name: "all calls per repair", Value: callsPerRepair, Note: "including status and events; counted by the API server"}, external)
}

// driftTracker tracks changes of children that are not corrected yet.
type driftTracker struct {
	*harness
	mu                  sync.Mutex
	pending             map[string]*pendingDrift
	sinceDue, sinceSeen []time.Duration
}

type pendingDrift struct {
	due  time.Time
	seen time.Time // by the watch
}

func newDriftTracker(s *harness) *driftTracker {
	d := &driftTracker{harness: s, pending: map[string]*pendingDrift{}}
	watchObjects(s, &appsv1.DeploymentList{}, func(eventType watch.EventType, o *appsv1.Deployment) {
		d.observe("Deployment/"+o.Name, eventType == watch.Deleted || o.Spec.Template.Spec.Containers[0].Image == foreignImage)
	})
	watchObjects(s, &corev1.ServiceList{}, func(eventType watch.EventType, o *corev1.Service) {
		d.observe("Service/"+o.Name, eventType == watch.Deleted || o.Spec.Ports[0].TargetPort.IntValue() == foreignPort)
	})
	return d
}

// observe records when a change is observed, and when its correction is.
func (d *driftTracker) observe(key string, drifted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := d.pending[key]
	switch {
	case entry == nil:
	case drifted && entry.seen.IsZero():
		entry.seen = time.Now()
	case !drifted && !entry.seen.IsZero(): // before that, the event is older than the change
		d.sinceDue = append(d.sinceDue, time.Since(entry.due))
		d.sinceSeen = append(d.sinceSeen, time.Since(entry.seen))
		delete(d.pending, key)
	}
}

func (d *driftTracker) inject(driftCase drift, i int, due time.Time) error {
	app := newApp(i)
	child := driftCase.child(metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name})
	kind := strings.TrimPrefix(fmt.Sprintf("%T", child), "*v1.")
	d.mu.Lock()
	d.pending[kind+"/"+app.Name] = &pendingDrift{due: due}
	d.mu.Unlock()
	if driftCase.patch == "" {
		return d.Delete(d.Context(), child)
	}
	return d.Patch(d.Context(), child, client.RawPatch(types.JSONPatchType, []byte(driftCase.patch)), client.FieldOwner("somebody-else"))
}

func (d *driftTracker) waitRepaired() {
	d.Helper()
	d.eventually("repairs", func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		for key, entry := range d.pending {
			return fmt.Sprintf("%d are not corrected, for example %s (change observed: %t)", len(d.pending), key, !entry.seen.IsZero())
		}
		return ""
	})
}

// measureRepairCalls reads the cost of a correction of each kind from the audit log.
func measureRepairCalls(t *testing.T, size scenarioSize) []results.Figure {
	s := newHarness(t, controlplane.Options{Audit: true})
	log, err := audit.Open(s.plane.AuditLog())
	s.must(err)
	d := newDriftTracker(s)
	s.op = operator.Start(t, s.plane, operator.Options{NoRace: true})
	n := size.driftAudited
	s.createApps(0, n*len(drifts), noCallback)
	s.waitAllReady(n * len(drifts))
	time.Sleep(settleTime)
	var out []results.Figure
	writes, reads := 0.0, 0.0
	for k, driftCase := range drifts {
		from, err := log.Mark(s.Context(), s.plane.Config)
		s.must(err)
		openLoop(s.Context(), driftsPerSecond, n, func(i int, due time.Time) {
			if err := d.inject(driftCase, k*n+i, due); err != nil {
				s.Error(err)
			}
		})
		d.waitRepaired()
		time.Sleep(settleTime)
		events, err := log.Since(s.Context(), s.plane.Config, from)
		s.must(err)
		cost := countRepairCost(events.By(operator.User), n)
		s.Logf("%s: %s", driftCase.name, cost)
		writes, reads = writes+float64(cost.writes)/float64(n), reads+float64(cost.reads)/float64(n)
		out = append(out, results.Figure{Row: "P9", Name: "calls per repair, " + driftCase.name, Value: cost.perRepair(), Note: cost.String()})
	}
	kinds := float64(len(drifts))
	return append(out,
		results.Figure{Row: "P9", Name: "writes per repair", Value: writes / kinds, Note: "mean of these four; a write is rejected and repeated if the controller-manager wrote first"}.WithBounds(1, 1),
		results.Figure{Row: "P9", Name: "reads per repair", Value: reads / kinds, Note: "only for a deleted child: live reads of the child and its owner"})
}

// repairCost is the number of requests in n corrections. A write is rejected if another client, usually the
// controller-manager, wrote first.
type repairCost struct{ n, writes, rejected, reads, status, events int }

func countRepairCost(requests audit.Events, n int) repairCost {
	c := repairCost{n: n}
	for i := range requests {
		switch e := &requests[i]; {
		case e.Verb == "watch": // a resumed watch is not related to corrections
		case e.Resource() == "events.events.k8s.io":
			c.events++
		case strings.HasSuffix(e.Resource(), "/status"):
			c.status++
		case e.IsWrite() && !e.Accepted():
			c.rejected++
		case e.IsWrite():
			c.writes++
		default:
			c.reads++
		}
	}
	return c
}

// perRepair returns the requests per correction, without status and events.
func (c repairCost) perRepair() float64 { return float64(c.writes+c.rejected+c.reads) / float64(c.n) }

func (c repairCost) String() string {
	return fmt.Sprintf("in %d: %d writes of children, %d rejected, %d reads; also %d of status, %d events", c.n, c.writes, c.rejected, c.reads, c.status, c.events)
}
