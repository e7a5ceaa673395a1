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
	// churnBound is how long 99 of 100 changes may take, in ms, for a rate to be held.
	churnBound = 250
	// churnUsual is that of 900 applications that are each edited once a minute, and 1.2 that
	// come and 0.2 that go per second. A slow machine begins below that.
	churnUsual = 16.4
	churnFirst = churnUsual / 4
	churnMost  = 2000 // changes per second; no machine of this kind comes near
)

// A turn has the proportions of the usual rate: 75 edits, 6 that come and 1 that goes.
const (
	turn       = 82
	turnCreate = 14 // every 14th
	turnDelete = 41 // the 41st
)

// churning is P4: changes come ever faster until they take too long.
func churning(t *testing.T, size liveSize) []results.Figure {
	s := liveStage(t)
	c := newChurn(s)
	s.saturate(size.churnApps, c.add)
	start, before := time.Now(), s.usage()
	var held churnStep
	for rate := churnFirst; rate < churnMost; rate *= size.churnUp {
		step := c.step(rate, size.churnStep)
		s.Logf("%.1f changes/s: %s; operator %.2f cores", rate, step.took, step.cpu/step.seconds)
		if step.took.at(0.99) > churnBound {
			break
		}
		held = step
	}
	note := fmt.Sprintf("steps of %s, each %.2f times the one before", size.churnStep, size.churnUp)
	out := []results.Figure{{Row: "P4", Name: "highest rate with p99 <= 250 ms", Got: held.rate, Unit: "changes/s", Note: note}}
	if held.rate > 0 {
		out = append(out, results.Figure{
			Row: "P4", Name: "changes per second and core of the operator", Got: held.changes / held.cpu, Unit: "changes/s",
			Note: fmt.Sprintf("%.2f cores at that rate", held.cpu/held.seconds),
		})
		out = append(out, held.took.figures("P4", "change to Deployment as desired at that rate")...)
	}
	if len(held.went) > 0 { // in a short step nobody may have gone
		out = append(out, results.Figure{
			Row: "P4", Name: "deletion to Deployment gone, p99", Got: held.went.at(0.99), Unit: "ms",
			Note: "the work of Kubernetes' garbage collector; not part of the bound",
		})
	}
	return append(out, s.others("P4", before, start))
}

// churnStep is what became of one rate.
type churnStep struct {
	rate, changes, cpu, seconds float64
	took, went                  latencies
}

// churn knows which applications there are, and what their Deployments should be.
type churn struct {
	*stage
	edited, gone *stopwatch

	mu   sync.Mutex
	next int       // number of the next AppService
	line []churned // the one that was changed the longest ago comes first
	// versions that no Deployment was seen to have yet, by AppService.
	open map[string][]int
}

type churned struct {
	name    types.NamespacedName
	version int
}

func newChurn(s *stage) *churn {
	c := &churn{stage: s, edited: newStopwatch(), gone: newStopwatch(), open: map[string][]int{}}
	watching(s, &appsv1.DeploymentList{}, c.see)
	return c
}

// image carries the version that it is of: a Deployment that has a later one than somebody
// waits for is as good.
func image(version int) string { return fmt.Sprintf("shop/web:%d", version) }

func versionOf(d *appsv1.Deployment) int {
	_, tag, _ := strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":")
	version, err := strconv.Atoi(tag)
	if err != nil {
		return 0
	}
	return version
}

func change(name string, version int) string { return fmt.Sprintf("%s:%d", name, version) }

// add takes an AppService that exists into the line.
func (c *churn) add(app *appsapi.AppService) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.line = append(c.line, churned{client.ObjectKeyFromObject(app), 1})
}

// see notes what the watch shows.
func (c *churn) see(what watch.EventType, d *appsv1.Deployment) {
	version := versionOf(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == watch.Deleted {
		c.gone.stop(d.Name)
		for _, v := range c.open[d.Name] {
			c.edited.drop(change(d.Name, v))
		}
		delete(c.open, d.Name)
		return
	}
	var later []int
	for _, v := range c.open[d.Name] {
		if v <= version {
			c.edited.stop(change(d.Name, v))
		} else {
			later = append(later, v)
		}
	}
	c.open[d.Name] = later
}

// step makes changes at a rate and returns when all of them were seen.
func (c *churn) step(rate float64, d time.Duration) churnStep {
	c.Helper()
	n := arrivals(rate, d)
	before, start := cpu(c, c.op.Pid()), time.Now()
	openLoop(c.Context(), rate, n, func(i int, due time.Time) {
		var err error
		switch i %= turn; {
		case i == turnDelete:
			err = c.remove(due)
		case i%turnCreate == 0:
			err = c.create(due)
		default:
			err = c.edit(due)
		}
		if err != nil {
			c.Error(err)
		}
	})
	c.edited.wait(c.stage, "changes")
	c.gone.wait(c.stage, "deletions")
	return churnStep{
		rate: rate, changes: float64(n), cpu: cpu(c, c.op.Pid()) - before, seconds: time.Since(start).Seconds(),
		took: c.edited.take(), went: c.gone.take(),
	}
}

// await starts the clock of a version.
func (c *churn) await(name string, version int, due time.Time) {
	c.open[name] = append(c.open[name], version)
	c.edited.start(change(name, version), due)
}

func (c *churn) create(due time.Time) error {
	c.mu.Lock()
	app := newApp(c.next)
	c.next++
	c.await(app.Name, 1, due)
	c.mu.Unlock()
	if err := c.Create(c.Context(), app); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = append(c.line, churned{client.ObjectKeyFromObject(app), 1})
	return nil
}

func (c *churn) edit(due time.Time) error {
	c.mu.Lock()
	one := c.line[0]
	one.version++
	c.line = append(c.line[1:], one)
	c.await(one.name.Name, one.version, due)
	c.mu.Unlock()
	app := &appsapi.AppService{}
	app.Namespace, app.Name = one.name.Namespace, one.name.Name
	patch := fmt.Appendf(nil, `{"spec":{"image":%q}}`, image(one.version))
	err := c.Patch(c.Context(), app, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) { // so late that it was deleted meanwhile
		c.edited.drop(change(one.name.Name, one.version))
		return nil
	}
	return err
}

// remove deletes the one that has been left alone the longest: unless the rate is far too
// high, no edit of it is under way.
func (c *churn) remove(due time.Time) error {
	c.mu.Lock()
	one := c.line[0]
	c.line = c.line[1:]
	c.mu.Unlock()
	app := &appsapi.AppService{}
	app.Namespace, app.Name = one.name.Namespace, one.name.Name
	c.gone.start(one.name.Name, due)
	return c.Delete(c.Context(), app)
}
