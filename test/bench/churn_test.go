package bench

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

const (
	// maxChurnP99 is the maximum p99 latency of changes, in ms, at a sustainable rate.
	maxChurnP99 = 250
	// churnTypicalRate corresponds to 900 applications that are edited once a minute, 1.2 creations and 0.2 deletions
	// per second. A slow machine starts below that.
	churnTypicalRate = 16.4
	churnStartRate   = churnTypicalRate / 4
	churnMaxRate     = 2000 // changes per second; beyond the capacity of such machines
)

// A cycle has the proportions of the typical rate: 75 edits, 6 creations and 1 deletion.
const (
	churnCycle       = 82
	churnCycleCreate = 14 // every 14th
	churnCycleDelete = 41 // the 41st
)

// measureChurn measures P4: the rate of changes increases until latencies are too high.
func measureChurn(t *testing.T, size scenarioSize) []results.Figure {
	s := newOperatorHarness(t)
	c := newChurnLoad(s)
	s.measureBurstRate(size.churnApps, c.add)
	start, before := time.Now(), s.usage()
	var sustained churnStep
	for rate := churnStartRate; rate < churnMaxRate; rate *= size.churnFactor {
		step := c.runStep(rate, size.churnStepTime)
		s.Logf("%.1f changes/s: %s; operator %.2f cores", rate, step.changeLatencies, step.cpu/step.seconds)
		if step.changeLatencies.percentile(0.99) > maxChurnP99 {
			break
		}
		sustained = step
	}
	note := fmt.Sprintf("steps of %s, each with %.2f times the rate of the previous one", size.churnStepTime, size.churnFactor)
	out := []results.Figure{{Row: "P4", Name: "highest rate with p99 <= 250 ms", Value: sustained.rate, Unit: "changes/s", Note: note}}
	if sustained.rate > 0 {
		out = append(out, results.Figure{
			Row: "P4", Name: "changes per second and core of the operator", Value: sustained.changes / sustained.cpu, Unit: "changes/s",
			Note: fmt.Sprintf("%.2f cores at that rate", sustained.cpu/sustained.seconds),
		})
		out = append(out, sustained.changeLatencies.figures("P4", "change to Deployment as desired at that rate")...)
	}
	if len(sustained.deletionLatencies) > 0 { // a short step may have no deletion
		out = append(out, results.Figure{
			Row: "P4", Name: "deletion to Deployment gone, p99", Value: sustained.deletionLatencies.percentile(0.99), Unit: "ms",
			Note: "deleted by the garbage collector; not part of the limit",
		})
	}
	return append(out, s.externalCPU("P4", before, start))
}

// churnStep is the result of one rate.
type churnStep struct {
	rate, changes, cpu, seconds        float64
	changeLatencies, deletionLatencies latencies
}

// churnLoad knows the existing applications and the desired state of their Deployments.
type churnLoad struct {
	*harness
	changes, deletions *stopwatch

	mu    sync.Mutex
	next  int        // number of the next AppService
	queue []churnApp // least recently changed first
	// pending are the versions that were not observed in a Deployment yet, by AppService.
	pending map[string][]int
}

type churnApp struct {
	name    types.NamespacedName
	version int
}

func newChurnLoad(s *harness) *churnLoad {
	c := &churnLoad{harness: s, changes: newStopwatch(), deletions: newStopwatch(), pending: map[string][]int{}}
	watchObjects(s, &appsv1.DeploymentList{}, c.observe)
	return c
}

// imageFor encodes the version in the tag: a Deployment with a later version completes all earlier ones.
func imageFor(version int) string { return fmt.Sprintf("shop/web:%d", version) }

func imageVersion(d *appsv1.Deployment) int {
	_, tag, _ := strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":")
	version, err := strconv.Atoi(tag)
	if err != nil {
		return 0
	}
	return version
}

func changeKey(name string, version int) string { return fmt.Sprintf("%s:%d", name, version) }

// add appends an existing AppService to the queue.
func (c *churnLoad) add(app *appsapi.AppService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.queue = append(c.queue, churnApp{client.ObjectKeyFromObject(app), 1})
}

// observe processes an event of the watch.
func (c *churnLoad) observe(eventType watch.EventType, d *appsv1.Deployment) {
	version := imageVersion(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if eventType == watch.Deleted {
		c.deletions.stop(d.Name)
		for _, v := range c.pending[d.Name] {
			c.changes.drop(changeKey(d.Name, v))
		}
		delete(c.pending, d.Name)
		return
	}
	var remaining []int
	for _, v := range c.pending[d.Name] {
		if v <= version {
			c.changes.stop(changeKey(d.Name, v))
		} else {
			remaining = append(remaining, v)
		}
	}
	c.pending[d.Name] = remaining
}

// runStep makes changes at a rate and returns when all of them were observed.
func (c *churnLoad) runStep(rate float64, d time.Duration) churnStep {
	c.Helper()
	n := arrivals(rate, d)
	before, start := cpuSeconds(c, c.op.Pid()), time.Now()
	openLoop(c.Context(), rate, n, func(i int, due time.Time) {
		var err error
		switch i %= churnCycle; {
		case i == churnCycleDelete:
			err = c.remove(due)
		case i%churnCycleCreate == 0:
			err = c.create(due)
		default:
			err = c.edit(due)
		}
		if err != nil {
			c.Error(err)
		}
	})
	c.changes.waitDone(c.harness, "changes")
	c.deletions.waitDone(c.harness, "deletions")
	return churnStep{
		rate: rate, changes: float64(n), cpu: cpuSeconds(c, c.op.Pid()) - before, seconds: time.Since(start).Seconds(),
		changeLatencies: c.changes.drain(), deletionLatencies: c.deletions.drain(),
	}
}

// expect starts the measurement of a version.
func (c *churnLoad) expect(name string, version int, due time.Time) {
	c.pending[name] = append(c.pending[name], version)
	c.changes.start(changeKey(name, version), due)
}

func (c *churnLoad) create(due time.Time) error {
	c.mu.Lock()
	app := newApp(c.next)
	c.next++
	c.expect(app.Name, 1, due)
	c.mu.Unlock()
	if err := c.Create(c.Context(), app); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, churnApp{client.ObjectKeyFromObject(app), 1})
	return nil
}

func (c *churnLoad) edit(due time.Time) error {
	c.mu.Lock()
	entry := c.queue[0]
	entry.version++
	c.queue = append(c.queue[1:], entry)
	c.expect(entry.name.Name, entry.version, due)
	c.mu.Unlock()
	app := &appsapi.AppService{}
	app.Namespace, app.Name = entry.name.Namespace, entry.name.Name
	patch := fmt.Appendf(nil, `{"spec":{"image":%q}}`, imageFor(entry.version))
	err := c.Patch(c.Context(), app, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) { // deleted meanwhile because of a long delay
		c.changes.drop(changeKey(entry.name.Name, entry.version))
		return nil
	}
	return err
}

// remove deletes the least recently changed AppService: unless the rate is far too high, it has no pending edit.
func (c *churnLoad) remove(due time.Time) error {
	c.mu.Lock()
	entry := c.queue[0]
	c.queue = c.queue[1:]
	c.mu.Unlock()
	app := &appsapi.AppService{}
	app.Namespace, app.Name = entry.name.Namespace, entry.name.Name
	c.deletions.start(entry.name.Name, due)
	return c.Delete(c.Context(), app)
}
