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

// world is an application of the property test: its spec and its live objects.
type world struct {
	*rand.Rand
	childFactory
	testComponents []testComponent
	index          map[string]int // of components
	spec           []desired.Component
	desiredIDs     map[desired.ID]bool
	observed       Observed
	ids            []desired.ID // of live objects, in the order of their creation
	records        map[desired.ID]*record
	protectedJobs  map[string]bool
	serial         int
	trace          func(format string, args ...any) // nil unless a single seed runs
}

// record is what the test knows about a workload in addition to what the planner can observe.
type record struct {
	version int         // of the applied template
	pods    [][]address // addresses that running pods were created with, newest last
}

// address is the expected address of a dependency.
type address struct{ component, resourceName string }

const maxComponents = 30

func newWorld(seed uint64, factory childFactory, trace func(string, ...any)) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 0)), childFactory: factory, trace: trace,
		observed: Observed{}, records: map[desired.ID]*record{}, protectedJobs: map[string]bool{},
	}
	most := [...]int{3, 3, 5, 5, 8, 8, 12, maxComponents}[w.IntN(8)] // small graphs find more bugs
	for range 1 + w.IntN(most) {
		w.addComponent()
	}
	w.rebuild()
	return w
}

func (w *world) rebuild() {
	w.spec = w.components(w.testComponents)
	w.index, w.desiredIDs = make(map[string]int, len(w.testComponents)), make(map[desired.ID]bool, 2*len(w.testComponents))
	for i, c := range w.spec {
		w.index[c.Name] = i
		if c.JobSpecHash != "" && w.testComponents[i].version%2 == 0 {
			w.protectedJobs[c.JobSpecHash] = true
		}
		for _, child := range c.Children {
			w.desiredIDs[child.ID] = true
		}
	}
}

func (w *world) component(name string) *testComponent {
	if i, ok := w.index[name]; ok {
		return &w.testComponents[i]
	}
	return nil
}

func (w *world) nextSerial() int { w.serial++; return w.serial }

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}

// oneIn is true with a probability of 1/n.
func (w *world) oneIn(n int) bool { return w.IntN(n) == 0 }

// randomEvent changes a live child.
func (w *world) randomEvent() {
	if w.oneIn(40) {
		w.createForeignObject()
	}
	if len(w.ids) == 0 {
		return
	}
	id := w.ids[w.IntN(len(w.ids))]
	live := w.observed[id]
	switch {
	case live.GetDeletionTimestamp() != nil:
		if w.oneIn(2) {
			w.deleteObject(id)
		}
		return
	case w.oneIn(40):
		w.deleteObject(id)
		return
	case w.oneIn(40) && metav1.GetControllerOfNoCopy(live) != nil && w.ownedOrUnreferenced(live):
		live.SetOwnerReferences(nil)
	case w.oneIn(40) && w.ownedOrUnreferenced(live) && id.Kind != desired.KindService:
		live.GetAnnotations()[appsapi.DefaultKeys.Prune] = appsapi.PruneDisabled
	}
	switch o := live.(type) {
	case *appsv1.Deployment:
		w.randomizeStatus(id, o)
	case *batchv1.Job:
		[]func(*batchv1.Job){jobComplete, jobComplete, jobFailed, jobStarting, jobRunning, jobRunning}[w.IntN(6)](o)
	}
}

// createForeignObject creates an object of another owner with the name of a child.
func (w *world) createForeignObject() {
	c := w.spec[w.IntN(len(w.spec))]
	id := c.Children[w.IntN(len(c.Children))].ID
	if w.observed[id] != nil {
		return
	}
	live := emptyObject(id)
	ownedByOther(live)
	w.tracef("squat %s", describeID(id))
	w.add(id, live)
}

// randomizeStatus changes the status of a Deployment, possibly to ready.
func (w *world) randomizeStatus(id desired.ID, d *appsv1.Deployment) {
	r := w.records[id]
	if r == nil {
		return
	}
	if w.oneIn(2) {
		w.completeRollout(id, d)
		return
	}
	want := *d.Spec.Replicas
	s := &d.Status
	if w.oneIn(4) {
		s.ReadyReplicas = w.Int32N(s.Replicas + 1)
		s.AvailableReplicas = w.Int32N(s.ReadyReplicas + 1)
		return // the controller has not observed the change
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

func (w *world) completeRollout(id desired.ID, d *appsv1.Deployment) {
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	r := w.records[id]
	r.pods = r.pods[len(r.pods)-1:]
}

// ownedOrUnreferenced reports whether an object belongs to the application, possibly without its
// owner reference.
func (w *world) ownedOrUnreferenced(live Object) bool {
	ref := metav1.GetControllerOfNoCopy(live)
	return ref == nil || ref.UID == shop.UID
}

func (w *world) add(id desired.ID, live Object) {
	w.observed[id] = live
	w.ids = append(w.ids, id)
}

func (w *world) deleteObject(id desired.ID) {
	w.tracef("gone %s", describeID(id))
	delete(w.observed, id)
	delete(w.records, id)
	w.ids = slices.DeleteFunc(w.ids, func(o desired.ID) bool { return o == id })
}

// execute executes a plan up to this many writes; then the operator crashes.
func (w *world) execute(p Plan, writes int) {
	failed := false
	for _, s := range p.Steps {
		i, rejected := w.index[s.Component], false
		for _, a := range s.Apply {
			if writes--; writes < 0 {
				return
			}
			c := w.spec[i]
			child := c.Children[slices.IndexFunc(c.Children, func(o desired.Child) bool { return o.ID == a.ID })]
			rejected = !w.applyChild(w.testComponents[i], child, a.HoldPodTemplate) || rejected
		}
		if failed = failed || rejected; rejected {
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

// applyChild behaves like package apply: it rejects objects that have another owner or are being
// deleted.
func (w *world) applyChild(p testComponent, child desired.Child, holdPods bool) bool {
	live := w.observed[child.ID]
	if live != nil && (!w.ownedOrUnreferenced(live) || live.GetDeletionTimestamp() != nil) {
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
	w.tracef("%s is now v%d of %s", describeID(child.ID), p.version, p.name)
	r.version = p.version
	var pod []address
	for _, need := range p.dependencies {
		pod = append(pod, address{need, w.component(need).resourceName})
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
	if w.oneIn(2) {
		w.deleteObject(id)
		return
	}
	live := w.observed[id]
	live.SetDeletionTimestamp(&noon)
	live.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	if w.oneIn(2) {
		live.SetFinalizers([]string{"example.com/theirs"})
	}
}

// stopDisturbances removes everything that prevents convergence.
func (w *world) stopDisturbances() {
	for i := range w.testComponents {
		w.testComponents[i].suspended = false
	}
	w.rebuild()
	for _, id := range slices.Clone(w.ids) {
		live := w.observed[id]
		if !w.ownedOrUnreferenced(live) {
			w.deleteObject(id)
			continue
		}
		live.SetOwnerReferences(ownerReferences)
		delete(live.GetAnnotations(), appsapi.DefaultKeys.Prune)
	}
}

// makeHealthy makes all live objects healthy.
func (w *world) makeHealthy() {
	for _, id := range slices.Clone(w.ids) {
		live := w.observed[id]
		if live.GetDeletionTimestamp() != nil {
			w.deleteObject(id)
			continue
		}
		switch o := live.(type) {
		case *appsv1.Deployment:
			w.completeRollout(id, o)
		case *batchv1.Job:
			if w.desiredIDs[id] && jobHasCondition(o, batchv1.JobFailed) {
				w.deleteObject(id) // a user restarts it
				continue
			}
			if !jobHasCondition(o, batchv1.JobFailed) {
				jobComplete(o)
			}
		}
	}
}

func jobHasCondition(j *batchv1.Job, conditionType batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == conditionType && c.Status == corev1.ConditionTrue })
}
