// Package schemawalk sets, changes and unsets every field of the CRD schemas. After each step the children must equal
// the children of a new object with the same spec: no earlier value may remain in fields that the operator manages or
// has managed.
//
// Safety rule: every leaf that is not walked and every value that is not compared is listed with a reason.
package schemawalk

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/gatewayapi"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

// The default is a sample. make schema-walk walks all leaves.
var (
	allLeaves    = flag.Bool("all", os.Getenv("HOLDFAST_LONG") != "", "walk every leaf")
	sampleEvery  = flag.Int("every", 18, "walk every n-th leaf")
	sampleOffset = flag.Int("seed", int(testutil.Seed()%1_000_000), "offset of the first leaf")
	pathFilter   = flag.String("only", "", "walk only leaves whose path contains this text")
	parallelism  = flag.Int("parallelism", 16, "number of leaves walked at the same time")
	writeReports = flag.Bool("report", false, "write out/schema-walk.json and docs/reports/schema-walk.md")
)

// stepTimeout is the timeout of a step. With sixteen leaves in parallel on a busy machine, a volume took more than
// twenty seconds.
const stepTimeout = time.Minute

func TestEveryFieldSetChangedUnset(t *testing.T) {
	startedAt := time.Now()
	w := newWalk(t)
	selected := w.selectWalks()
	results := make([]result, len(selected))
	var running sync.WaitGroup
	slots := make(chan struct{}, *parallelism)
	for i, step := range selected {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			results[i] = step()
		})
	}
	running.Wait()
	for _, r := range results {
		for _, m := range r.mismatches {
			t.Errorf("%s: %s", r.title(), m)
		}
	}
	w.publish(results, time.Since(startedAt))
}

// walk is a run over the leaves.
type walk struct {
	t         *testing.T
	kinds     []kind
	client    dynamic.Interface
	namespace string
	observer  *observer
	hits      *maskHits
	forms     *formCache

	mu           sync.Mutex
	nameCount    int
	freshObjects map[string]*freshObject
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	operator.Install(t, plane)
	if _, err := plane.InstallCRDs(gatewayapi.HTTPRouteCRD(t)); err != nil {
		t.Fatal(err)
	}
	if err := volsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatal(err)
	}
	_, databaseEnv, err := sqlsim.Start(t.Context(), plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	operator.Start(t, plane, operator.Options{NoRace: true, Env: []string{databaseEnv}})
	cfg := rest.CopyConfig(plane.Config)
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{t: t, kinds: readKinds(t), client: client, namespace: testutil.Namespace(t, plane.Config),
		hits: &maskHits{count: map[int]int{}}, forms: &formCache{known: map[formKey]normalForm{}}, freshObjects: map[string]*freshObject{}}
	w.createReferencedObjects()
	w.observer = startObserver(t, client, w.namespace, w.kinds)
	return w
}

// selectWalks returns the walks of this run. Leaves of jobs are walked a second time in a job with a schedule.
func (w *walk) selectWalks() []func() result {
	var out []func() result
	n := 0
	add := func(name string, step func() result) {
		n++
		if strings.Contains(name, *pathFilter) && (*allLeaves || *pathFilter != "" || n%*sampleEvery == *sampleOffset%*sampleEvery) {
			out = append(out, step)
		}
	}
	for _, k := range w.kinds {
		for _, l := range k.leaves() {
			add(l.name(), func() result { return w.walkLeaf(l) })
			if l.componentType() == "job" && l.relativePath() != "schedule" {
				scheduled := l
				scheduled.scheduled = true
				add(l.name(), func() result { return w.walkLeaf(scheduled) })
			}
		}
		for _, r := range alternativeSets {
			for _, l := range r.leavesIn(k) {
				add(r.name, func() result { return w.walkAlternatives(l, r) })
			}
		}
	}
	return out
}

// result is the result of a walk.
type result struct {
	leaf
	isAlternatives bool // not a leaf
	skipReason     string
	rejectReason   string // why it cannot be set
	removed        string // the parent that was unset with it, "" if it cannot be unset
	noEffect       bool   // its values change no child
	mismatches     []string
}

func (r result) title() string {
	title := r.kind.name + " " + r.name()
	if r.isAlternatives {
		title = fmt.Sprintf("%s, %s of %s", r.kind.name, r.path[len(r.path)-1], r.componentType())
	}
	if r.scheduled {
		title += " (with a schedule)"
	}
	return title
}

// walkLeaf sets, changes and unsets one leaf.
func (w *walk) walkLeaf(l leaf) result {
	r := result{leaf: l, skipReason: l.exceptionReason(skippedLeaves), rejectReason: l.exceptionReason(rejectedLeaves)}
	switch {
	case r.skipReason != "":
		return r
	case r.rejectReason != "":
		r.mismatches = w.walkRejected(l)
		return r
	}
	live, initialSpec, err := w.createWithout(l, &r)
	if err != nil {
		r.mismatches = append(r.mismatches, fmt.Sprintf("created: %v", err))
		return r
	}
	states := []string{w.waitSettled(l, live, initialSpec, &r, "created")}
	for _, step := range l.steps(initialSpec) {
		if step.name == "unset" && r.removed == "" {
			continue // required: cannot be unset
		}
		if live, err = w.update(l.kind, live, step.spec); err != nil {
			r.mismatches = append(r.mismatches, fmt.Sprintf("%s to %s: %v", step.name, toJSON(step.spec), err))
			return r
		}
		states = append(states, w.waitSettled(l, live, step.spec, &r, step.name))
	}
	if r.noEffect = len(r.mismatches) == 0 && len(slices.Compact(states)) == 1; r.noEffect && l.exceptionReason(leavesWithoutEffect) == "" {
		r.mismatches = append(r.mismatches, "neither value changes a child, so the walk is not meaningful; choose other values in valueHints")
	}
	return r
}

// walkStep is a change of a leaf.
type walkStep struct {
	name string
	spec map[string]any
}

func (l leaf) steps(initialSpec map[string]any) []walkStep {
	a, b := l.twoValues()
	out := []walkStep{{"set", l.specWith(a)}, {"changed", l.specWith(b)}, {"unset", initialSpec}}
	if l.exceptionReason(recreatedLeaves) != "" {
		out = slices.Insert(out, 1, out[2])
	}
	return out
}

// createWithout creates an object without the leaf, or with the smallest removal that the API server accepts.
func (w *walk) createWithout(l leaf, r *result) (live liveObject, spec map[string]any, err error) {
	for _, candidate := range l.specsWithout() {
		if live, err = w.create(l, candidate.spec); err == nil {
			r.removed = candidate.removed
			return live, candidate.spec, nil
		}
		if !apierrors.IsInvalid(err) {
			return live, nil, err
		}
	}
	live, err = w.create(l, l.baseSpec())
	return live, l.baseSpec(), err
}

// waitSettled waits until an object has the same children as a new object with the same spec, and returns their
// normal form.
func (w *walk) waitSettled(l leaf, live liveObject, spec map[string]any, r *result, step string) string {
	reference := w.freshObjectFor(l, withoutSuspend(spec))
	deadline := time.Now().Add(stepTimeout)
	for {
		problem := w.observer.notReadyReason(live.name, live.generation)
		if problem == "" {
			problem = reference.problem(w.observer)
		}
		var got, want string
		if problem == "" {
			var usedMasks []int
			got, usedMasks = w.childrenText(live, spec)
			if want, _ = w.childrenText(reference.liveObject, spec); got == want {
				w.hits.add(usedMasks)
				return got
			}
		}
		if time.Now().After(deadline) {
			if problem == "" {
				problem = "children differ from a new object (-new +this):\n" + cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
			}
			r.mismatches = append(r.mismatches, fmt.Sprintf("%s: %s", step, problem))
			return got
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// childrenText returns all children of an object in a comparable form, and the masks that were applied.
func (w *walk) childrenText(o liveObject, spec map[string]any) (_ string, usedMasks []int) {
	var b strings.Builder
	replicasSet := workloadsWithReplicas(o.name, spec)
	for _, child := range w.observer.children(o.uid) {
		normalized := w.forms.get(child, o, replicasSet[child.GetName()])
		b.WriteString(normalized.text + "\n")
		usedMasks = append(usedMasks, normalized.masks...)
	}
	return b.String(), usedMasks
}

// liveObject is an application of the test.
type liveObject struct {
	name       string
	uid        types.UID
	generation int64
}
