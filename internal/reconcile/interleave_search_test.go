package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// node is a state and the steps that lead to it.
type node struct {
	parent *node
	step   step
	depth  int
}

func (n *node) path() []step {
	var out []step
	for ; n.parent != nil; n = n.parent {
		out = append(out, n.step)
	}
	slices.Reverse(out)
	return out
}

func pathText(path []step) string {
	texts := make([]string, len(path))
	for i, s := range path {
		texts[i] = s.String()
	}
	return strings.Join(texts, ", ")
}

// search visits the states of one scenario.
type search struct {
	scenario *scenario
	budget   budget
	bug      injectedBug
	rng      *rand.Rand

	visited          map[[32]byte]bool
	states           int // visited states
	transitions      int
	depth            int
	walks, longWalks int // all walks, and the deep ones
	converged        int
	// finalState is the state that every path must converge to, and finalStatePath the path that
	// found it.
	finalState     string
	finalStatePath []step
}

// ruleViolation is a path that violates a rule.
type ruleViolation struct {
	path    []step
	message string
}

func (f *ruleViolation) Error() string { return f.message }

func newSearch(in *scenario, b budget, seed uint64, bug injectedBug) *search {
	return &search{scenario: in, budget: b, bug: bug, rng: rand.New(rand.NewPCG(seed, 8)), visited: map[[32]byte]bool{}}
}

// markVisited reports whether a state is new.
func (s *search) markVisited(w *world) bool {
	key := w.stateKey()
	if s.visited[key] {
		return false
	}
	s.visited[key] = true
	s.states++
	return true
}

func (s *search) String() string {
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d of %d walks of %d steps and more, converged %d times",
		s.states, s.transitions, s.depth, s.longWalks, s.walks, longWalkSteps, s.converged)
}

// add adds the counts of another search.
func (s *search) add(o *search) {
	s.states, s.transitions, s.depth = s.states+o.states, s.transitions+o.transitions, max(s.depth, o.depth)
	s.walks, s.longWalks, s.converged = s.walks+o.walks, s.longWalks+o.longWalks, s.converged+o.converged
}

// takeStep performs a step on a copy of a state.
func (s *search) takeStep(w *world, n *node, st step) (*world, *node, error) {
	after, child := w.clone(), &node{n, st, n.depth + 1}
	after.doStep(st)
	s.transitions++
	s.depth = max(s.depth, child.depth)
	if after.violation != "" {
		return nil, nil, &ruleViolation{child.path(), after.violation}
	}
	return after, child, nil
}

// breadthFirst visits all states within a few steps, up to a limit, and converges some of them.
func (s *search) breadthFirst(states, convergeEvery int) error {
	type frontierItem struct {
		w *world
		n *node
	}
	first := newWorld(s.scenario, s.budget, s.bug)
	s.markVisited(first)
	for queue := []frontierItem{{first, &node{}}}; len(queue) > 0 && s.states < states; {
		o := queue[0]
		queue[0], queue = frontierItem{}, queue[1:]
		for _, st := range o.w.enabledSteps() {
			w, n, err := s.takeStep(o.w, o.n, st)
			if err != nil {
				return err
			}
			if !s.markVisited(w) {
				continue
			}
			queue = append(queue, frontierItem{w, n})
			if s.states%convergeEvery == 0 {
				if err := s.converge(w, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// walk performs up to n random steps, and then converges.
func (s *search) walk(b budget, maxSteps int) error {
	w, n := newWorld(s.scenario, b, s.bug), &node{}
	for n.depth < maxSteps {
		steps := w.enabledSteps()
		if len(steps) == 0 {
			break
		}
		var err error
		if w, n, err = s.takeStep(w, n, s.chooseStep(steps)); err != nil {
			return err
		}
		s.markVisited(w)
	}
	s.walks++
	if n.depth >= longWalkSteps {
		s.longWalks++
	}
	return s.converge(w, n)
}

// chooseStep rarely chooses faults and delays user edits, so that edits meet unfinished work.
func (s *search) chooseStep(steps []step) step {
	weight := func(st step) int {
		switch st.verb {
		case "see", "hear", "play", "collect", "reconcile":
			return 20
		case "edit":
			return 3
		case "timer":
			return 10
		}
		return 1
	}
	total := 0
	for _, st := range steps {
		total += weight(st)
	}
	pick := s.rng.IntN(total)
	for _, st := range steps {
		if pick -= weight(st); pick < 0 {
			return st
		}
	}
	panic("unreachable")
}

// maxConvergeSteps limits the steps without faults that a world needs to converge.
const maxConvergeSteps = 500

// converge performs all steps without faults until none is left, and checks the final state.
func (s *search) converge(w *world, n *node) error {
	w = w.clone()
	w.budget = budget{}
	for range maxConvergeSteps {
		steps := w.enabledSteps()
		if len(steps) == 0 {
			s.converged++
			return s.checkFinalState(w, n)
		}
		var err error
		if w, n, err = s.takeStep(w, n, steps[0]); err != nil {
			return err
		}
	}
	return &ruleViolation{n.path(), fmt.Sprintf("does not converge within %d steps, last error: %v", maxConvergeSteps, w.lastErr)}
}

// checkFinalState checks a final state against the rules and against the first final state.
func (s *search) checkFinalState(w *world, n *node) error {
	if w.editsDone < len(s.scenario.edits) {
		return &ruleViolation{n.path(), fmt.Sprintf("edit %q never becomes possible", s.scenario.edits[w.editsDone].name)}
	}
	if reason := w.notConverged(); reason != "" {
		return &ruleViolation{n.path(), "converged, but " + reason}
	}
	finalState := w.finalStateText()
	if s.finalState == "" {
		s.finalState, s.finalStatePath = finalState, n.path()
	}
	if finalState != s.finalState {
		return &ruleViolation{n.path(), "two final states, the other one by " + pathText(s.finalStatePath) + "\n" + cmp.Diff(s.finalState, finalState)}
	}
	return nil
}

// notConverged describes a problem of a world without further steps.
func (w *world) notConverged() string {
	for _, v := range w.server.sorted() {
		if v.deleting() {
			return fmt.Sprintf("%s is still being deleted", v.ref)
		}
		if owner := metav1.GetControllerOfNoCopy(v.object); owner != nil {
			ownerVersion := w.server.objects[ref{owner.Kind, owner.Name}]
			if ownerVersion == nil || ownerVersion.uid() != owner.UID {
				return fmt.Sprintf("%s has no owner", v.ref)
			}
		}
		app, ok := v.object.(execute.Application)
		if !ok {
			continue
		}
		c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != app.GetGeneration() {
			return fmt.Sprintf("%s has generation %d, but its status is %+v", v.ref, app.GetGeneration(), c)
		}
	}
	return ""
}

// finalStateText formats the server state without parts that may differ: generated names, counts of
// writes, the drift history, and data about specs that were never reconciled.
func (w *world) finalStateText() string {
	uids := []string{}
	for _, v := range w.server.sorted() {
		uids = append(uids, string(v.uid()), v.String())
	}
	names := strings.NewReplacer(uids...)
	var b strings.Builder
	for _, v := range w.server.sorted() {
		if w.isOfEarlierSpec(v) {
			continue
		}
		obj := copyOf(v.object)
		obj.SetResourceVersion("")
		generation := obj.GetGeneration()
		obj.SetGeneration(0)
		if app, ok := obj.(execute.Application); ok {
			app.ApplicationStatus().Drift = nil
		}
		switch o := obj.(type) {
		case *appsapi.AppStack:
			o.Status.ObservedGeneration -= generation
			o.Status.HealthyRevision = fmt.Sprint(o.Status.HealthyRevision == o.Status.CurrentRevision)
			o.Status.CurrentRevision = ""
			clearGenerations(o.Status.Conditions, generation)
		case *appsapi.AppService:
			o.Status.ObservedGeneration -= generation
			clearGenerations(o.Status.Conditions, generation)
		case *appsv1.Deployment:
			o.Status.ObservedGeneration -= generation
		case *appsv1.ControllerRevision:
			o.Revision, o.Name = 0, "current"
		}
		// The field manager of replicas depends on whether there was an update.
		b.WriteString("---\n" + strings.ReplaceAll(names.Replace(marshal(obj)), "        f:replicas: {}\n", ""))
	}
	return b.String()
}

func clearGenerations(conditions []metav1.Condition, generation int64) {
	for i := range conditions {
		conditions[i].ObservedGeneration -= generation
		conditions[i].LastTransitionTime = metav1.Time{}
	}
}

func marshal(obj client.Object) string {
	content, err := yaml.Marshal(obj)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// isOfEarlierSpec reports whether an object belongs to an earlier spec.
func (w *world) isOfEarlierSpec(v *objectVersion) bool {
	owner := metav1.GetControllerOfNoCopy(v.object)
	if owner == nil {
		return false
	}
	app := w.server.objects[ref{owner.Kind, owner.Name}]
	switch o := v.object.(type) {
	case *appsv1.ControllerRevision:
		stack, ok := app.object.(*appsapi.AppStack)
		return ok && fmt.Sprint(o.Revision) != stack.Status.CurrentRevision
	case *batchv1.Job:
		return !slices.ContainsFunc(componentsOf(app.object), func(c desired.ExpandedComponent) bool {
			return c.Job != nil && c.Job.Image == imageOf(&o.Spec.Template)
		})
	}
	return false
}
