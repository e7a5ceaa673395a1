package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// step is a possible next step.
type step struct {
	verb     string
	ref             // the object of the step
	failKind string // the kind whose writes fail
}

func (s step) String() string {
	return strings.TrimSpace(strings.Join([]string{s.verb, strings.Trim(s.ref.String(), "/"), s.failKind}, " "))
}

// parseStep parses the result of String.
func parseStep(text string) (step, error) {
	parts := strings.Fields(text)
	if len(parts) == 0 || len(parts) > 3 {
		return step{}, fmt.Errorf("%q is not a step", text)
	}
	s := step{verb: parts[0]}
	if len(parts) > 1 {
		s.kind, s.name, _ = strings.Cut(parts[1], "/")
	}
	if len(parts) > 2 {
		s.failKind = parts[2]
	}
	return s, nil
}

// maxTimer is the longest timer that counts as a step. Longer timers are only fallbacks, and
// nothing must depend on them.
const maxTimer = time.Minute

// failureKinds are the kinds whose writes can fail or lose their response.
var failureKinds = []string{"ControllerRevision", "Deployment", "Job", "Service", "status"}

// enabledSteps returns all possible next steps in a fixed order: automatic ones first.
func (w *world) enabledSteps() []step {
	var out []step
	for _, k := range modelKinds {
		if f := w.caches[k.name]; f.position < len(f.recent) {
			out = append(out, step{verb: "see", ref: ref{kind: k.name}})
		}
		if len(w.caches[k.name].undelivered) > 0 {
			out = append(out, step{verb: "hear", ref: ref{kind: k.name}})
		}
	}
	for _, v := range w.server.sorted() {
		if w.runController(v, true) {
			out = append(out, step{verb: "play", ref: v.ref})
		}
		if w.collectGarbage(v, true) {
			out = append(out, step{verb: "collect", ref: v.ref})
		}
	}
	queued := w.refsInQueue(func(d queueEntry) bool { return d.queued })
	for _, r := range queued {
		out = append(out, step{verb: "reconcile", ref: r})
	}
	if w.editsDone < len(w.scenario.edits) && w.scenario.edits[w.editsDone].isEnabled(w) {
		out = append(out, step{verb: "edit"})
	}
	for _, r := range w.refsInQueue(func(d queueEntry) bool { return d.timer > 0 && d.timer < maxTimer }) {
		out = append(out, step{verb: "timer", ref: r})
	}
	return append(out, w.faultSteps(queued)...)
}

// refsInQueue returns the queued objects that match, in order.
func (w *world) refsInQueue(match func(queueEntry) bool) []ref {
	var out []ref
	for r, d := range w.queue {
		if match(d) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, compareRefs)
	return out
}

// faultSteps returns the possible faults.
func (w *world) faultSteps(queued []ref) []step {
	var out []step
	if w.budget.ticks > 0 {
		out = append(out, step{verb: "tick"})
	}
	if w.budget.crashes > 0 {
		out = append(out, step{verb: "crash"}, step{verb: "past"})
	}
	for _, k := range modelKinds[:2] {
		for _, name := range sortedKeys(w.caches[k.name].objects) {
			if r := (ref{k.name, name}); w.budget.resyncs > 0 && !w.queue[r].queued {
				out = append(out, step{verb: "resync", ref: r})
			}
		}
	}
	for _, r := range queued {
		for _, kind := range failureKinds {
			if w.budget.crashes > 0 {
				out = append(out, step{"die", r, kind})
			}
			if w.budget.lostResponses > 0 {
				out = append(out, step{"lose", r, kind})
			}
		}
	}
	return out
}

// doStep performs a step.
func (w *world) doStep(s step) {
	switch s.verb {
	case "see":
		w.updateCache(s.kind)
	case "hear":
		w.deliverEvent(s.kind)
	case "resync":
		w.budget.resyncs--
		modelQueue{w: w, kind: s.kind}.enqueue(s.name)
	case "play":
		w.runController(w.server.objects[s.ref], false)
	case "collect":
		w.collectGarbage(w.server.objects[s.ref], false)
	case "edit":
		w.editsDone++
		w.scenario.edits[w.editsDone-1].do(w.server)
	case "timer":
		d := w.queue[s.ref]
		w.now = w.now.Add(d.timer)
		w.queue[s.ref] = queueEntry{queued: true}
	case "tick":
		w.budget.ticks--
		w.now = w.now.Add(11 * time.Second)
	case "reconcile":
		w.reconcile(s.ref, nil)
	case "lose":
		w.budget.lostResponses--
		w.reconcile(s.ref, &writeFailure{kind: s.failKind, written: true})
	case "die":
		w.reconcile(s.ref, &writeFailure{kind: s.failKind})
		w.crash(false)
	case "crash":
		w.crash(false)
	case "past":
		w.crash(true)
	default:
		panic("there is no step " + s.verb)
	}
	w.publish()
	w.markReady()
}

// quietCtx is the context of all reconciles: it discards their logs.
var quietCtx = ctrl.LoggerInto(context.Background(), logr.Discard())

// reconcile reconciles one object.
func (w *world) reconcile(r ref, failure *writeFailure) {
	d := w.queue[r]
	d.queued = false
	w.queue[r] = d
	w.reconciling, w.actingUID, w.actingGeneration = r, "", 0
	if v := w.caches[r.kind].objects[r.name]; v != nil {
		w.actingUID = v.uid()
		w.actingGeneration = max(v.object.GetGeneration(), lastWrittenGeneration(w.serviceReconciler, v.uid()), lastWrittenGeneration(w.stackReconciler, v.uid()))
	}
	setWriteFailure(w, r.kind, failure)
	req := request{NamespacedName: types.NamespacedName{Namespace: modelNamespace, Name: r.name}}
	var ctrlResult ctrl.Result
	var err error
	if r.kind == "AppService" {
		ctrlResult, err = w.serviceReconciler.reconcile(quietCtx, req)
	} else {
		ctrlResult, err = w.stackReconciler.reconcile(quietCtx, req)
	}
	setWriteFailure(w, r.kind, nil)
	w.reconciling, w.lastErr = ref{}, err
	d = w.queue[r]
	switch d.timer = ctrlResult.RequeueAfter; {
	case err != nil:
		d.timer = time.Millisecond
	case d.timer >= nameConflictPollInterval && d.timer < maxTimer:
		d.timer = 2 * nameConflictPollInterval // includes the random part
	case d.timer > time.Millisecond:
		d.timer = d.timer.Round(time.Second) + time.Second
	}
	if w.queue[r] = d; d == (queueEntry{}) {
		delete(w.queue, r)
	}
}

// crash drops all in-memory state. The restarted operator may read an outdated list.
func (w *world) crash(oldList bool) {
	w.publish()
	w.budget.crashes--
	w.startedFromOldList = w.startedFromOldList || oldList
	w.serviceReconciler, w.stackReconciler = newModelReconciler(w, serviceKind, "AppService"), newModelReconciler(w, stackKind, "AppStack")
	w.queue = map[ref]queueEntry{}
	for _, k := range modelKinds {
		f := w.caches[k.name]
		f.objects, f.position, f.undelivered = map[string]*objectVersion{}, 0, nil
		for name, v := range f.oldList {
			f.objects[name] = v
		}
		for !oldList && f.position < len(f.recent) {
			applyToCache(f.objects, f.recent[f.position])
			f.position++
		}
	}
	for _, k := range modelKinds {
		for _, name := range sortedKeys(w.caches[k.name].objects) {
			w.caches[k.name].undelivered = append(w.caches[k.name].undelivered, cacheEvent{nil, w.caches[k.name].objects[name]})
			w.deliverEvent(k.name)
		}
	}
}

// runController performs one step of the controller of a workload, and reports whether there was
// one.
func (w *world) runController(v *objectVersion, dryRun bool) bool {
	if v.deleting() {
		return false
	}
	switch o := v.object.(type) {
	case *appsv1.Deployment:
		return w.runDeploymentController(v, o, dryRun)
	case *batchv1.Job:
		return w.runJobController(v, o, dryRun)
	}
	return false
}

// runDeploymentController observes a new generation; then its pods become ready.
func (w *world) runDeploymentController(v *objectVersion, d *appsv1.Deployment, dryRun bool) bool {
	current, want := w.pods[v.uid()], templateText(&d.Spec.Template)
	if d.Status.ObservedGeneration == d.Generation && current.ready {
		return false
	}
	if dryRun {
		return true
	}
	status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	switch {
	case d.Status.ObservedGeneration == d.Generation, current.template == want && current.ready:
		current.ready = true
	case current.template == "" || current.template != want && !current.ready:
		current = podState{template: want, image: imageOf(&d.Spec.Template)}
		status.ReadyReplicas, status.AvailableReplicas = 0, 0
	case current.template != want: // a new pod next to the old one
		current = podState{template: want, image: imageOf(&d.Spec.Template)}
		status.Replicas = 2
	default:
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas
	}
	w.pods[v.uid()] = current
	w.editStatus(v, func(obj client.Object) { obj.(*appsv1.Deployment).Status = status })
	return true
}

// runJobController starts a pod, which then succeeds.
func (w *world) runJobController(v *objectVersion, j *batchv1.Job, dryRun bool) bool {
	if len(j.Status.Conditions) > 0 {
		return false
	}
	if dryRun {
		return true
	}
	status := batchv1.JobStatus{Active: 1, StartTime: &metav1.Time{Time: epoch}}
	if j.Status.Active > 0 {
		status = batchv1.JobStatus{Succeeded: 1, StartTime: status.StartTime, CompletionTime: status.StartTime,
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
		w.pods[v.uid()] = podState{image: imageOf(&j.Spec.Template), ready: true}
	} else {
		w.jobRuns[v.name]++
	}
	w.editStatus(v, func(obj client.Object) { obj.(*batchv1.Job).Status = status })
	return true
}

// editStatus is a status update of a simulated controller.
func (w *world) editStatus(v *objectVersion, change func(client.Object)) {
	if _, err := w.server.edit(v.ref, "", change); err != nil {
		panic(err)
	}
}

func templateText(t *corev1.PodTemplateSpec) string {
	content, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return string(content)
}

func imageOf(t *corev1.PodTemplateSpec) string { return t.Spec.Containers[0].Image }

// collectGarbage performs one step of the garbage collector for an object, and reports whether
// there was one.
func (w *world) collectGarbage(v *objectVersion, dryRun bool) bool {
	foreground := slices.Contains(v.object.GetFinalizers(), metav1.FinalizerDeleteDependents)
	orphan := slices.Contains(v.object.GetFinalizers(), metav1.FinalizerOrphanDependents)
	switch owner := metav1.GetControllerOfNoCopy(v.object); {
	case v.deleting() && foreground && w.dependents(v) == 0, v.deleting() && orphan:
		if !dryRun {
			w.editStatus(v, func(obj client.Object) {
				obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool {
					return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
				}))
			})
		}
		return true
	case v.deleting() || owner == nil:
		return false
	default:
		ownerVersion := w.server.objects[ref{owner.Kind, owner.Name}]
		ownerExists := ownerVersion != nil && ownerVersion.uid() == owner.UID
		if ownerExists && (!ownerVersion.deleting() || !slices.Contains(ownerVersion.object.GetFinalizers(), metav1.FinalizerDeleteDependents)) {
			return false
		}
		if !dryRun {
			uid := v.uid()
			if err := w.server.delete(v.ref, &metav1.Preconditions{UID: &uid}, metav1.DeletePropagationBackground); err != nil {
				panic(err)
			}
		}
		return true
	}
}

// dependents counts the children of an object.
func (w *world) dependents(v *objectVersion) int {
	n := 0
	for _, o := range w.server.objects {
		if metav1.IsControlledBy(o.object, v.object) {
			n++
		}
	}
	return n
}
