// Package schemawalk sets, changes and unsets every field that the schemas of our kinds
// have. After each step the children must be those of a fresh object with the
// same spec: nothing of what was said before may stay behind, in fields that we own or in
// fields that we once owned.
//
// Safety rule: a leaf that is not walked is listed with the reason, and so is every value
// that is not compared.
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

// Without flags a sample is walked, as one test among others; make schema-walk walks all.
var (
	all     = flag.Bool("all", os.Getenv("HOLDFAST_LONG") != "", "walk every leaf")
	every   = flag.Int("every", 18, "walk each n-th leaf")
	seed    = flag.Int("seed", 1, "which of them is the first")
	only    = flag.String("only", "", "walk the leaves whose path has this in it")
	abreast = flag.Int("abreast", 16, "leaves that are walked at the same time")
	reports = flag.Bool("report", false, "write out/schema-walk.json and docs/reports/schema-walk.md")
)

// patience is how long a step may take, as in the stories. With sixteen leaves abreast on a
// machine that others use, a volume took more than twenty seconds.
const patience = time.Minute

func TestEveryFieldSetChangedUnset(t *testing.T) {
	begun := time.Now()
	w := newWalk(t)
	chosen := w.choose()
	results := make([]result, len(chosen))
	var running sync.WaitGroup
	turns := make(chan struct{}, *abreast)
	for i, step := range chosen {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			results[i] = step()
		})
	}
	running.Wait()
	for _, r := range results {
		for _, m := range r.mismatches {
			t.Errorf("%s: %s", r.title(), m)
		}
	}
	w.publish(results, time.Since(begun))
}

// walk is one run over the leaves.
type walk struct {
	t         *testing.T
	kinds     []kind
	client    dynamic.Interface
	namespace string
	view      *view
	hits      *hits
	forms     *forms

	mu    sync.Mutex
	names int
	fresh map[string]*fresh
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	operator.Install(t, plane)
	if _, err := plane.InstallCRDs(gatewayapi.CRDs(t)); err != nil {
		t.Fatal(err)
	}
	if err := volsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatal(err)
	}
	_, toThem, err := sqlsim.Play(t.Context(), plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	operator.Start(t, plane, operator.Options{Fast: true, Env: []string{toThem}})
	cfg := rest.CopyConfig(plane.Config)
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{t: t, kinds: readKinds(t), client: client, namespace: testutil.Namespace(t, plane.Config),
		hits: &hits{count: map[int]int{}}, forms: &forms{known: map[formKey]form{}}, fresh: map[string]*fresh{}}
	w.referred()
	w.view = watch(t, client, w.namespace, w.kinds)
	return w
}

// choose are the walks of this run. Leaves of jobs are walked a second time in a job with
// a schedule.
func (w *walk) choose() []func() result {
	var out []func() result
	n := 0
	add := func(name string, step func() result) {
		n++
		if strings.Contains(name, *only) && (*all || *only != "" || n%*every == *seed%*every) {
			out = append(out, step)
		}
	}
	for _, k := range w.kinds {
		for _, l := range k.leaves() {
			add(l.name(), func() result { return w.walk(l) })
			if l.part() == "job" && l.within() != "schedule" {
				again := l
				again.scheduled = true
				add(l.name(), func() result { return w.walk(again) })
			}
		}
		for _, r := range rings {
			for _, l := range r.turns(k) {
				add(r.name, func() result { return w.turn(l, r) })
			}
		}
	}
	return out
}

// result is what became of a leaf.
type result struct {
	leaf
	ring       bool // not a leaf
	leftOut    string
	refused    string // why nobody can set it
	removed    string // what was unset with it, "" if it cannot be unset
	silent     bool   // no value of it changes a child
	mismatches []string
}

func (r result) title() string {
	title := r.kind.name + " " + r.name()
	if r.ring {
		title = fmt.Sprintf("%s, %s of %s", r.kind.name, r.path[len(r.path)-1], r.part())
	}
	if r.scheduled {
		title += " (with a schedule)"
	}
	return title
}

// walk sets, changes and unsets one leaf.
func (w *walk) walk(l leaf) result {
	r := result{leaf: l, leftOut: l.among(left), refused: l.among(refused)}
	switch {
	case r.leftOut != "":
		return r
	case r.refused != "":
		r.mismatches = w.refuse(l)
		return r
	}
	live, begin, err := w.begin(l, &r)
	if err != nil {
		r.mismatches = append(r.mismatches, fmt.Sprintf("created: %v", err))
		return r
	}
	forms := []string{w.settled(l, live, begin, &r, "created")}
	for _, step := range l.steps(begin) {
		if step.name == "unset" && r.removed == "" {
			continue // required: there is no way without it
		}
		if live, err = w.update(l.kind, live, step.spec); err != nil {
			r.mismatches = append(r.mismatches, fmt.Sprintf("%s to %s: %v", step.name, text(step.spec), err))
			return r
		}
		forms = append(forms, w.settled(l, live, step.spec, &r, step.name))
	}
	if r.silent = len(r.mismatches) == 0 && len(slices.Compact(forms)) == 1; r.silent && l.among(quiet) == "" {
		r.mismatches = append(r.mismatches, "neither value changes a child, so nothing was shown; choose others in hints")
	}
	return r
}

// step is what is done to a leaf.
type step struct {
	name string
	spec map[string]any
}

func (l leaf) steps(begin map[string]any) []step {
	a, b := l.values()
	out := []step{{"set", l.with(a)}, {"changed", l.with(b)}, {"unset", begin}}
	if l.among(anew) != "" {
		out = slices.Insert(out, 1, out[2])
	}
	return out
}

// begin creates the object of a leaf without the leaf, or as near to that as the API server
// accepts.
func (w *walk) begin(l leaf, r *result) (live object, spec map[string]any, err error) {
	for _, lack := range l.without() {
		if live, err = w.create(l, lack.spec); err == nil {
			r.removed = lack.removed
			return live, lack.spec, nil
		}
		if !apierrors.IsInvalid(err) {
			return live, nil, err
		}
	}
	live, err = w.create(l, l.start())
	return live, l.start(), err
}

// settled waits until an object has the children of a fresh one with the same spec, and
// returns their form.
func (w *walk) settled(l leaf, live object, spec map[string]any, r *result, step string) string {
	like := w.freshOf(l, awake(spec))
	until := time.Now().Add(patience)
	for {
		trouble := w.view.ready(live.name, live.generation)
		if trouble == "" {
			trouble = like.trouble(w.view)
		}
		var got, want string
		if trouble == "" {
			var found []int
			got, found = w.form(live, spec)
			if want, _ = w.form(like.object, spec); got == want {
				w.hits.add(found)
				return got
			}
		}
		if time.Now().After(until) {
			if trouble == "" {
				trouble = "children differ from those of a fresh object (-fresh +this):\n" + cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
			}
			r.mismatches = append(r.mismatches, fmt.Sprintf("%s: %s", step, trouble))
			return got
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// form is all children of an object in a form that can be compared, and which masks that
// took.
func (w *walk) form(o object, spec map[string]any) (_ string, found []int) {
	var b strings.Builder
	counts := counted(o.name, spec)
	for _, child := range w.view.children(o.uid) {
		one := w.forms.of(child, o, counts[child.GetName()])
		b.WriteString(one.text + "\n")
		found = append(found, one.masks...)
	}
	return b.String(), found
}

// object is an object of ours.
type object struct {
	name       string
	uid        types.UID
	generation int64
}
