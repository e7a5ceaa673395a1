package rollout

import (
	"math/rand/v2"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// world is an application of the property test: what its spec says and what lives.
type world struct {
	*rand.Rand
	maker
	parts   []part
	index   map[string]int // of parts
	spec    []desired.Component
	wanted  map[desired.ID]bool
	seen    Seen
	ids     []desired.ID // of seen, in the order in which they came
	records map[desired.ID]*record
	keep    map[string]bool
	serial  int
	trace   func(format string, args ...any) // nil unless somebody wants to know
}

// record is what is known of a workload beside what the planner may see.
type record struct {
	version int         // of the template that it was applied with
	pods    [][]address // what pods that run were made with, the newest last
}

// address is where pods expect to find what they need.
type address struct{ component, resource string }

const maxParts = 30

func newWorld(seed uint64, m maker, trace func(string, ...any)) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 0)), maker: m, trace: trace,
		seen: Seen{}, records: map[desired.ID]*record{}, keep: map[string]bool{},
	}
	most := [...]int{3, 3, 5, 5, 8, 8, 12, maxParts}[w.IntN(8)] // small ones have more surprises
	for range 1 + w.IntN(most) {
		w.addPart()
	}
	w.rebuild()
	return w
}

func (w *world) rebuild() {
	w.spec = w.components(w.parts)
	w.index, w.wanted = make(map[string]int, len(w.parts)), make(map[desired.ID]bool, 2*len(w.parts))
	for i, c := range w.spec {
		w.index[c.Name] = i
		if c.JobSpec != "" && w.parts[i].version%2 == 0 {
			w.keep[c.JobSpec] = true
		}
		for _, child := range c.Children {
			w.wanted[child.ID] = true
		}
	}
}

func (w *world) part(name string) *part {
	if i, ok := w.index[name]; ok {
		return &w.parts[i]
	}
	return nil
}

func (w *world) next() int { w.serial++; return w.serial }

func (w *world) tell(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}

// may is true in one of so many cases.
func (w *world) may(oneIn int) bool { return w.IntN(oneIn) == 0 }

// happen does something to a child that lives.
func (w *world) happen() {
	if w.may(40) {
		w.squat()
	}
	if len(w.ids) == 0 {
		return
	}
	id := w.ids[w.IntN(len(w.ids))]
	live := w.seen[id]
	switch {
	case live.GetDeletionTimestamp() != nil:
		if w.may(2) {
			w.gone(id)
		}
		return
	case w.may(40):
		w.gone(id)
		return
	case w.may(40) && metav1.GetControllerOfNoCopy(live) != nil && w.mine(live):
		live.SetOwnerReferences(nil)
	case w.may(40) && w.mine(live) && id.Kind != desired.KindService:
		live.GetAnnotations()[appsapi.AnnotationPrune] = appsapi.PruneDisabled
	}
	switch o := live.(type) {
	case *appsv1.Deployment:
		w.shake(id, o)
	case *batchv1.Job:
		[]func(*batchv1.Job){complete, complete, failed, idle, atWork, atWork}[w.IntN(6)](o)
	}
}

// squat puts an object of somebody else where a child shall be.
func (w *world) squat() {
	c := w.spec[w.IntN(len(w.spec))]
	id := c.Children[w.IntN(len(c.Children))].ID
	if w.seen[id] != nil {
		return
	}
	live := bare(id)
	theirs(live)
	w.tell("squat %s", nameOf(id))
	w.add(id, live)
}

// shake gives the pods of a Deployment another state, which may be the best.
func (w *world) shake(id desired.ID, d *appsv1.Deployment) {
	r := w.records[id]
	if r == nil {
		return
	}
	if w.may(2) {
		w.settle(id, d)
		return
	}
	want := *d.Spec.Replicas
	s := &d.Status
	if w.may(4) {
		s.ReadyReplicas = w.Int32N(s.Replicas + 1)
		s.AvailableReplicas = w.Int32N(s.ReadyReplicas + 1)
		return // and the change was not seen
	}
	old := int32(0)
	if len(r.pods) > 1 {
		old = w.Int32N(want + 1)
	}
	s.ObservedGeneration = d.Generation
	s.UpdatedReplicas = w.Int32N(want + 1)
	s.Replicas = old + s.UpdatedReplicas
	s.ReadyReplicas = w.Int32N(s.Replicas + 1)
	s.AvailableReplicas = w.Int32N(s.ReadyReplicas + 1)
	if old == 0 {
		r.pods = r.pods[len(r.pods)-1:]
	}
}

func (w *world) settle(id desired.ID, d *appsv1.Deployment) {
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	r := w.records[id]
	r.pods = r.pods[len(r.pods)-1:]
}

// mine says whether an object is ours, or was before it lost its reference.
func (w *world) mine(live Object) bool {
	ref := metav1.GetControllerOfNoCopy(live)
	return ref == nil || ref.UID == shop.UID
}

func (w *world) add(id desired.ID, live Object) {
	w.seen[id] = live
	w.ids = append(w.ids, id)
}

func (w *world) gone(id desired.ID) {
	w.tell("gone %s", nameOf(id))
	delete(w.seen, id)
	delete(w.records, id)
	w.ids = slices.DeleteFunc(w.ids, func(o desired.ID) bool { return o == id })
}

// execute does what a plan says, up to so many writes: then the operator crashes.
func (w *world) execute(p Plan, writes int) {
	failed := false
	for _, s := range p.Steps {
		i, refused := w.index[s.Component], false
		for _, a := range s.Apply {
			if writes--; writes < 0 {
				return
			}
			c := w.spec[i]
			child := c.Children[slices.IndexFunc(c.Children, func(o desired.Child) bool { return o.ID == a.ID })]
			refused = !w.applyChild(w.parts[i], child, a.HoldPods) || refused
		}
		if failed = failed || refused; refused {
			continue
		}
		for _, id := range s.Remove {
			if writes--; writes < 0 {
				return
			}
			w.remove(id)
		}
	}
	if failed {
		return
	}
	for _, r := range p.Prune {
		if writes--; writes < 0 {
			return
		}
		w.remove(r.Child)
	}
}

// applyChild does what package apply does: it refuses what is somebody else's, and what is
// on its way out.
func (w *world) applyChild(p part, child desired.Child, holdPods bool) bool {
	live := w.seen[child.ID]
	if live != nil && (!w.mine(live) || live.GetDeletionTimestamp() != nil) {
		return false
	}
	now := w.apply(w, p, child, live, holdPods)
	if live == nil {
		w.add(child.ID, now)
	}
	if child.Kind == desired.KindService {
		return true
	}
	r := w.records[child.ID]
	if r == nil {
		r = &record{}
		w.records[child.ID] = r
	}
	if live != nil && (holdPods || r.version == p.version || child.Kind == desired.KindJob) {
		return true
	}
	w.tell("%s is now v%d of %s", nameOf(child.ID), p.version, p.name)
	r.version = p.version
	var pod []address
	for _, need := range p.needs {
		pod = append(pod, address{need, w.part(need).resource})
	}
	if d, ok := now.(*appsv1.Deployment); ok {
		d.Generation++
		r.pods = append(r.pods, pod)
		return true
	}
	r.pods = [][]address{pod}
	return true
}

func (w *world) remove(id desired.ID) {
	if w.may(2) {
		w.gone(id)
		return
	}
	live := w.seen[id]
	live.SetDeletionTimestamp(&noon)
	live.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	if w.may(2) {
		live.SetFinalizers([]string{"example.com/theirs"})
	}
}

// calm ends everything that keeps the application from being what its spec says.
func (w *world) calm() {
	for i := range w.parts {
		w.parts[i].held = false
	}
	w.rebuild()
	for _, id := range slices.Clone(w.ids) {
		live := w.seen[id]
		if !w.mine(live) {
			w.gone(id)
			continue
		}
		live.SetOwnerReferences(ourReference)
		delete(live.GetAnnotations(), appsapi.AnnotationPrune)
	}
}

// heal makes everything well that lives.
func (w *world) heal() {
	for _, id := range slices.Clone(w.ids) {
		live := w.seen[id]
		if live.GetDeletionTimestamp() != nil {
			w.gone(id)
			continue
		}
		switch o := live.(type) {
		case *appsv1.Deployment:
			w.settle(id, o)
		case *batchv1.Job:
			if w.wanted[id] && ended(o, batchv1.JobFailed) {
				w.gone(id) // somebody runs it again
				continue
			}
			if !ended(o, batchv1.JobFailed) {
				complete(o)
			}
		}
	}
}

func ended(j *batchv1.Job, how batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == how && c.Status == corev1.ConditionTrue })
}
