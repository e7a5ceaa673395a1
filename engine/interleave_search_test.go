package engine

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
)

// node is how a state was come to.
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

// search visits the states of one input.
type search struct {
	scenario *scenario
	budget   budget
	bug      injectedBug
	rng      *rand.Rand

	visited          map[[32]byte]bool
	states           int // that were visited
	transitions      int
	depth            int
	walks, longWalks int // all, and those that were deep
	converged        int
	// finalState is the one state that everything has to come to, and by which way it was found.
	finalState     string
	finalStatePath []step
}

// ruleViolation is a rule that was broken.
type ruleViolation struct {
	path    []step
	message string
}

func (f *ruleViolation) Error() string { return f.message }

func newSearch(in *scenario, b budget, seed uint64, bug injectedBug) *search {
	return &search{scenario: in, budget: b, bug: bug, rng: rand.New(rand.NewPCG(seed, 8)), visited: map[[32]byte]bool{}}
}

// markVisited says whether a state is new.
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
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d of %d walks of %d steps and more, %d times at rest",
		s.states, s.transitions, s.depth, s.longWalks, s.walks, longWalkSteps, s.converged)
}

// add sums up.
func (s *search) add(o *search) {
	s.states, s.transitions, s.depth = s.states+o.states, s.transitions+o.transitions, max(s.depth, o.depth)
	s.walks, s.longWalks, s.converged = s.walks+o.walks, s.longWalks+o.longWalks, s.converged+o.converged
}

// takeStep makes a step from a state, which stays as it is.
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

// breadthFirst visits all states that few steps lead to, until it has seen enough, and from some
// of them lets everything come to rest.
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

// walk makes steps by chance, as many as it is told if there are that many, and then lets
// everything come to rest.
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

// chooseStep takes trouble rarely, and does not hurry with what people do: in between there
// has to be something that they meet.
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

// maxConvergeSteps is after how many steps without trouble everything must have come to rest.
const maxConvergeSteps = 500

// converge makes what is to be done by itself, one after the other, and looks at the end.
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
	return &ruleViolation{n.path(), fmt.Sprintf("it does not come to rest within %d steps, last: %v", maxConvergeSteps, w.lastErr)}
}

// checkFinalState holds an end against what it must be, and against the first end that was found.
func (s *search) checkFinalState(w *world, n *node) error {
	if w.editsDone < len(s.scenario.edits) {
		return &ruleViolation{n.path(), fmt.Sprintf("edit %q never becomes possible", s.scenario.edits[w.editsDone].name)}
	}
	if reason := w.notConverged(); reason != "" {
		return &ruleViolation{n.path(), "at rest, " + reason}
	}
	finalState := w.finalStateText()
	if s.finalState == "" {
		s.finalState, s.finalStatePath = finalState, n.path()
	}
	if finalState != s.finalState {
		return &ruleViolation{n.path(), "two ends, the other by " + pathText(s.finalStatePath) + "\n" + cmp.Diff(s.finalState, finalState)}
	}
	return nil
}

// notConverged is what is wrong with a world at rest.
func (w *world) notConverged() string {
	for _, v := range w.server.sorted() {
		if v.deleting() {
			return fmt.Sprintf("%s is still being deleted", v.ref)
		}
		if owner := metav1.GetControllerOfNoCopy(v.object); owner != nil {
			ownerVersion := w.server.objects[ref{owner.Kind, owner.Name}]
			if ownerVersion == nil || ownerVersion.uid() != owner.UID {
				return fmt.Sprintf("%s belongs to nobody", v.ref)
			}
		}
		app, ok := v.object.(Object)
		if !ok {
			continue
		}
		c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != app.GetGeneration() {
			return fmt.Sprintf("%s, generation %d, says %+v", v.ref, app.GetGeneration(), c)
		}
	}
	return ""
}

// finalStateText is the truth without what may differ: names that the server gives, how often
// something was written, and what is remembered of specs that came and went unseen.
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
		// Whose the count is depends on whether there was an update: it is only sent along.
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

// isOfEarlierSpec says whether an object is of a spec that is not the current one.
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
		return !slices.ContainsFunc(componentsOf(app.object), func(c Component) bool {
			return c.Job != nil && c.Job.Image == imageOf(&o.Spec.Template)
		})
	}
	return false
}
