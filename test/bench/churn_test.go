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
	// maxChurnP99 is how long 99 of 100 changes may take, in ms, for a rate to be held.
	maxChurnP99 = 250
	// churnTypicalRate is that of 900 applications that are each edited once a minute, and 1.2 that
	// come and 0.2 that go per second. A slow machine begins below that.
	churnTypicalRate = 16.4
	churnStartRate   = churnTypicalRate / 4
	churnMaxRate     = 2000 // changes per second; no machine of this kind comes near
)

// A turn has the proportions of the usual rate: 75 edits, 6 that come and 1 that goes.
const (
	churnCycle       = 82
	churnCycleCreate = 14 // every 14th
	churnCycleDelete = 41 // the 41st
)

// measureChurn is P4: changes come ever faster until they take too long.
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
	note := fmt.Sprintf("steps of %s, each %.2f times the one before", size.churnStepTime, size.churnFactor)
	out := []results.Figure{{Row: "P4", Name: "highest rate with p99 <= 250 ms", Value: sustained.rate, Unit: "changes/s", Note: note}}
	if sustained.rate > 0 {
		out = append(out, results.Figure{
			Row: "P4", Name: "changes per second and core of the operator", Value: sustained.changes / sustained.cpu, Unit: "changes/s",
			Note: fmt.Sprintf("%.2f cores at that rate", sustained.cpu/sustained.seconds),
		})
		out = append(out, sustained.changeLatencies.figures("P4", "change to Deployment as desired at that rate")...)
	}
	if len(sustained.deletionLatencies) > 0 { // in a short step nobody may have gone
		out = append(out, results.Figure{
			Row: "P4", Name: "deletion to Deployment gone, p99", Value: sustained.deletionLatencies.percentile(0.99), Unit: "ms",
			Note: "the work of Kubernetes' garbage collector; not part of the bound",
		})
	}
	return append(out, s.externalCPU("P4", before, start))
}

// churnStepTime is what became of one rate.
type churnStep struct {
	rate, changes, cpu, seconds        float64
	changeLatencies, deletionLatencies latencies
}

// churnLoad knows which applications there are, and what their Deployments should be.
type churnLoad struct {
	*harness
	changes, deletions *stopwatch

	mu    sync.Mutex
	next  int        // number of the next AppService
	queue []churnApp // the one that was changed the longest ago comes first
	// versions that no Deployment was seen to have yet, by AppService.
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

// imageFor carries the version that it is of: a Deployment that has a later one than somebody
// waits for is as good.
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

// add takes an AppService that exists into the line.
func (c *churnLoad) add(app *appsapi.AppService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.queue = append(c.queue, churnApp{client.ObjectKeyFromObject(app), 1})
}

// observe notes what the watch shows.
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

// runStep makes changes at a rate and returns when all of them were seen.
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

// expect starts the clock of a version.
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
	if apierrors.IsNotFound(err) { // so late that it was deleted meanwhile
		c.changes.drop(changeKey(entry.name.Name, entry.version))
		return nil
	}
	return err
}

// remove deletes the one that has been left alone the longest: unless the rate is far too
// high, no edit of it is under way.
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
