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
	in      *input
	budget  budget
	mistake mistake
	rng     *rand.Rand

	visited     map[[32]byte]bool
	states      int // that were visited
	transitions int
	depth       int
	walks, long int // all, and those that were deep
	settled     int
	// end is the one state that everything has to come to, and by which way it was found.
	end     string
	endPath []step
}

// found is a rule that was broken.
type found struct {
	path []step
	what string
}

func (f *found) Error() string { return f.what }

func newSearch(in *input, b budget, seed uint64, wrong mistake) *search {
	return &search{in: in, budget: b, mistake: wrong, rng: rand.New(rand.NewPCG(seed, 8)), visited: map[[32]byte]bool{}}
}

// visit says whether a state is new.
func (s *search) visit(w *world) bool {
	key := w.key()
	if s.visited[key] {
		return false
	}
	s.visited[key] = true
	s.states++
	return true
}

func (s *search) String() string {
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d of %d walks of %d steps and more, %d times at rest",
		s.states, s.transitions, s.depth, s.long, s.walks, deep, s.settled)
}

// add sums up.
func (s *search) add(o *search) {
	s.states, s.transitions, s.depth = s.states+o.states, s.transitions+o.transitions, max(s.depth, o.depth)
	s.walks, s.long, s.settled = s.walks+o.walks, s.long+o.long, s.settled+o.settled
}

// next makes a step from a state, which stays as it is.
func (s *search) next(w *world, n *node, st step) (*world, *node, error) {
	after, at := w.clone(), &node{n, st, n.depth + 1}
	after.do(st)
	s.transitions++
	s.depth = max(s.depth, at.depth)
	if after.violated != "" {
		return nil, nil, &found{at.path(), after.violated}
	}
	return after, at, nil
}

// breadth visits all states that few steps lead to, until it has seen enough, and from some
// of them lets everything come to rest.
func (s *search) breadth(states, settleEvery int) error {
	type open struct {
		w *world
		n *node
	}
	first := newWorld(s.in, s.budget, s.mistake)
	s.visit(first)
	for queue := []open{{first, &node{}}}; len(queue) > 0 && s.states < states; {
		o := queue[0]
		queue[0], queue = open{}, queue[1:]
		for _, st := range o.w.steps() {
			w, n, err := s.next(o.w, o.n, st)
			if err != nil {
				return err
			}
			if !s.visit(w) {
				continue
			}
			queue = append(queue, open{w, n})
			if s.states%settleEvery == 0 {
				if err := s.settle(w, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// walk makes steps by chance, as many as it is told if there are that many, and then lets
// everything come to rest.
func (s *search) walk(b budget, most int) error {
	w, n := newWorld(s.in, b, s.mistake), &node{}
	for n.depth < most {
		steps := w.steps()
		if len(steps) == 0 {
			break
		}
		var err error
		if w, n, err = s.next(w, n, s.choose(steps)); err != nil {
			return err
		}
		s.visit(w)
	}
	s.walks++
	if n.depth >= deep {
		s.long++
	}
	return s.settle(w, n)
}

// choose takes trouble rarely, and does not hurry with what people do: in between there
// has to be something that they meet.
func (s *search) choose(steps []step) step {
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
	all := 0
	for _, st := range steps {
		all += weight(st)
	}
	at := s.rng.IntN(all)
	for _, st := range steps {
		if at -= weight(st); at < 0 {
			return st
		}
	}
	panic("unreachable")
}

// patienceAtEnd is after how many steps without trouble everything must have come to rest.
const patienceAtEnd = 500

// settle makes what is to be done by itself, one after the other, and looks at the end.
func (s *search) settle(w *world, n *node) error {
	w = w.clone()
	w.budget = budget{}
	for range patienceAtEnd {
		steps := w.steps()
		if len(steps) == 0 {
			s.settled++
			return s.compare(w, n)
		}
		var err error
		if w, n, err = s.next(w, n, steps[0]); err != nil {
			return err
		}
	}
	return &found{n.path(), fmt.Sprintf("it does not come to rest within %d steps, last: %v", patienceAtEnd, w.failed)}
}

// compare holds an end against what it must be, and against the first end that was found.
func (s *search) compare(w *world, n *node) error {
	if w.edits < len(s.in.edits) {
		return &found{n.path(), fmt.Sprintf("edit %q never becomes possible", s.in.edits[w.edits].what)}
	}
	if why := w.unfinished(); why != "" {
		return &found{n.path(), "at rest, " + why}
	}
	end := w.endText()
	if s.end == "" {
		s.end, s.endPath = end, n.path()
	}
	if end != s.end {
		return &found{n.path(), "two ends, the other by " + pathText(s.endPath) + "\n" + cmp.Diff(s.end, end)}
	}
	return nil
}

// unfinished is what is wrong with a world at rest.
func (w *world) unfinished() string {
	for _, v := range w.server.sorted() {
		if v.deleting() {
			return fmt.Sprintf("%s is still being deleted", v.ref)
		}
		if owner := metav1.GetControllerOfNoCopy(v.object); owner != nil {
			above := w.server.objects[ref{owner.Kind, owner.Name}]
			if above == nil || above.uid() != owner.UID {
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

// endText is the truth without what may differ: names that the server gives, how often
// something was written, and what is remembered of specs that came and went unseen.
func (w *world) endText() string {
	uids := []string{}
	for _, v := range w.server.sorted() {
		uids = append(uids, string(v.uid()), v.String())
	}
	names := strings.NewReplacer(uids...)
	var b strings.Builder
	for _, v := range w.server.sorted() {
		if w.remembered(v) {
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
			forgetGenerations(o.Status.Conditions, generation)
		case *appsapi.AppService:
			o.Status.ObservedGeneration -= generation
			forgetGenerations(o.Status.Conditions, generation)
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

func forgetGenerations(conditions []metav1.Condition, generation int64) {
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

// remembered says whether an object is of a spec that is not the current one.
func (w *world) remembered(v *version) bool {
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
