package engine

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

// step is something that can happen next.
type step struct {
	verb string
	ref         // of what it is about
	at   string // the kind whose writes fail
}

func (s step) String() string {
	return strings.TrimSpace(strings.Join([]string{s.verb, strings.Trim(s.ref.String(), "/"), s.at}, " "))
}

// parseStep reads what String wrote.
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
		s.at = parts[2]
	}
	return s, nil
}

// far is when a timer does not count as something that will happen: it is set for the
// case that nothing happens, and whoever waits for it waits too long.
const far = time.Minute

// cuts are where a reconcile can be cut off, and what can get lost: the writes of a kind.
var cuts = []string{"ControllerRevision", "Deployment", "Job", "Service", "status"}

// steps are all that can happen next, in a fixed order: first what happens by itself.
func (w *world) steps() []step {
	var out []step
	for _, k := range modelKinds {
		if f := w.feeds[k.name]; f.seen < len(f.recent) {
			out = append(out, step{verb: "see", ref: ref{kind: k.name}})
		}
		if len(w.feeds[k.name].unheard) > 0 {
			out = append(out, step{verb: "hear", ref: ref{kind: k.name}})
		}
	}
	for _, v := range w.server.sorted() {
		if w.play(v, true) {
			out = append(out, step{verb: "play", ref: v.ref})
		}
		if w.collect(v, true) {
			out = append(out, step{verb: "collect", ref: v.ref})
		}
	}
	queued := w.wanted(func(d due) bool { return d.queued })
	for _, r := range queued {
		out = append(out, step{verb: "reconcile", ref: r})
	}
	if w.edits < len(w.in.edits) && w.in.edits[w.edits].possible(w) {
		out = append(out, step{verb: "edit"})
	}
	for _, r := range w.wanted(func(d due) bool { return d.timer > 0 && d.timer < far }) {
		out = append(out, step{verb: "timer", ref: r})
	}
	return append(out, w.troubles(queued)...)
}

// wanted are the objects with a mark in the queue, in order.
func (w *world) wanted(has func(due) bool) []ref {
	var out []ref
	for r, d := range w.queue {
		if has(d) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, compareRefs)
	return out
}

// troubles are what can go wrong next.
func (w *world) troubles(queued []ref) []step {
	var out []step
	if w.budget.ticks > 0 {
		out = append(out, step{verb: "tick"})
	}
	if w.budget.crashes > 0 {
		out = append(out, step{verb: "crash"}, step{verb: "past"})
	}
	for _, k := range modelKinds[:2] {
		for _, name := range sortedKeys(w.feeds[k.name].shown) {
			if r := (ref{k.name, name}); w.budget.resyncs > 0 && !w.queue[r].queued {
				out = append(out, step{verb: "resync", ref: r})
			}
		}
	}
	for _, r := range queued {
		for _, at := range cuts {
			if w.budget.crashes > 0 {
				out = append(out, step{"die", r, at})
			}
			if w.budget.losses > 0 {
				out = append(out, step{"lose", r, at})
			}
		}
	}
	return out
}

// do makes a step.
func (w *world) do(s step) {
	switch s.verb {
	case "see":
		w.see(s.kind)
	case "hear":
		w.hear(s.kind)
	case "resync":
		w.budget.resyncs--
		modelQueue{w: w, kind: s.kind}.wake(s.name)
	case "play":
		w.play(w.server.objects[s.ref], false)
	case "collect":
		w.collect(w.server.objects[s.ref], false)
	case "edit":
		w.edits++
		w.in.edits[w.edits-1].do(w.server)
	case "timer":
		d := w.queue[s.ref]
		w.now = w.now.Add(d.timer)
		w.queue[s.ref] = due{queued: true}
	case "tick":
		w.budget.ticks--
		w.now = w.now.Add(11 * time.Second)
	case "reconcile":
		w.reconcile(s.ref, nil)
	case "lose":
		w.budget.losses--
		w.reconcile(s.ref, &loss{kind: s.at, lands: true})
	case "die":
		w.reconcile(s.ref, &loss{kind: s.at})
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

// quietly is the context of everything: nobody reads the log of thousands of reconciles.
var quietly = ctrl.LoggerInto(context.Background(), logr.Discard())

// reconcile looks at one object.
func (w *world) reconcile(r ref, f *loss) {
	d := w.queue[r]
	d.queued = false
	w.queue[r] = d
	w.acting, w.actingUID, w.actingGeneration = r, "", 0
	if v := w.feeds[r.kind].shown[r.name]; v != nil {
		w.actingUID = v.uid()
		w.actingGeneration = max(v.object.GetGeneration(), generationWritten(w.services, v.uid()), generationWritten(w.stacks, v.uid()))
	}
	during(w, r.kind, f)
	req := request{NamespacedName: types.NamespacedName{Namespace: modelNamespace, Name: r.name}}
	var result ctrl.Result
	var err error
	if r.kind == "AppService" {
		result, err = w.services.pass(quietly, req)
	} else {
		result, err = w.stacks.pass(quietly, req)
	}
	during(w, r.kind, nil)
	w.acting, w.failed = ref{}, err
	d = w.queue[r]
	switch d.timer = result.RequeueAfter; {
	case err != nil:
		d.timer = time.Millisecond
	case d.timer >= conflictPoll && d.timer < far:
		d.timer = 2 * conflictPoll // some of it is chance
	case d.timer > time.Millisecond:
		d.timer = d.timer.Round(time.Second) + time.Second
	}
	if w.queue[r] = d; d == (due{}) {
		delete(w.queue, r)
	}
}

// crash loses everything that is remembered. Who starts anew begins with a list, which may
// be one of the past.
func (w *world) crash(past bool) {
	w.publish()
	w.budget.crashes--
	w.pasts = w.pasts || past
	w.services, w.stacks = newMind(w, serviceKind, "AppService"), newMind(w, stackKind, "AppStack")
	w.queue = map[ref]due{}
	for _, k := range modelKinds {
		f := w.feeds[k.name]
		f.shown, f.seen, f.unheard = map[string]*version{}, 0, nil
		for name, v := range f.before {
			f.shown[name] = v
		}
		for !past && f.seen < len(f.recent) {
			note(f.shown, f.recent[f.seen])
			f.seen++
		}
	}
	for _, k := range modelKinds {
		for _, name := range sortedKeys(w.feeds[k.name].shown) {
			w.feeds[k.name].unheard = append(w.feeds[k.name].unheard, notice{nil, w.feeds[k.name].shown[name]})
			w.hear(k.name)
		}
	}
}

// play lets the controller of a workload do one thing, or says whether there is any.
func (w *world) play(v *version, ask bool) bool {
	if v.deleting() {
		return false
	}
	switch o := v.object.(type) {
	case *appsv1.Deployment:
		return w.playDeployment(v, o, ask)
	case *batchv1.Job:
		return w.playJob(v, o, ask)
	}
	return false
}

// playDeployment sees another generation, then its pods become ready.
func (w *world) playDeployment(v *version, d *appsv1.Deployment, ask bool) bool {
	have, want := w.pods[v.uid()], templateOf(&d.Spec.Template)
	if d.Status.ObservedGeneration == d.Generation && have.ready {
		return false
	}
	if ask {
		return true
	}
	status := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	switch {
	case d.Status.ObservedGeneration == d.Generation, have.template == want && have.ready:
		have.ready = true
	case have.template == "" || have.template != want && !have.ready:
		have = pods{template: want, image: imageOf(&d.Spec.Template)}
		status.ReadyReplicas, status.AvailableReplicas = 0, 0
	case have.template != want: // a new one beside the old one
		have = pods{template: want, image: imageOf(&d.Spec.Template)}
		status.Replicas = 2
	default:
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas
	}
	w.pods[v.uid()] = have
	w.write(v, func(obj client.Object) { obj.(*appsv1.Deployment).Status = status })
	return true
}

// playJob starts a pod, which then ends well.
func (w *world) playJob(v *version, j *batchv1.Job, ask bool) bool {
	if len(j.Status.Conditions) > 0 {
		return false
	}
	if ask {
		return true
	}
	status := batchv1.JobStatus{Active: 1, StartTime: &metav1.Time{Time: epoch}}
	if j.Status.Active > 0 {
		status = batchv1.JobStatus{Succeeded: 1, StartTime: status.StartTime, CompletionTime: status.StartTime,
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
		w.pods[v.uid()] = pods{image: imageOf(&j.Spec.Template), ready: true}
	} else {
		w.runs[v.name]++
	}
	w.write(v, func(obj client.Object) { obj.(*batchv1.Job).Status = status })
	return true
}

// write is one of a status, by somebody who is played.
func (w *world) write(v *version, change func(client.Object)) {
	if _, err := w.server.edit(v.ref, "", change); err != nil {
		panic(err)
	}
}

func templateOf(t *corev1.PodTemplateSpec) string {
	content, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return string(content)
}

func imageOf(t *corev1.PodTemplateSpec) string { return t.Spec.Containers[0].Image }

// collect lets the garbage collector do what it has to do about an object, or says whether
// there is anything.
func (w *world) collect(v *version, ask bool) bool {
	waits := slices.Contains(v.object.GetFinalizers(), metav1.FinalizerDeleteDependents)
	orphans := slices.Contains(v.object.GetFinalizers(), metav1.FinalizerOrphanDependents)
	switch owner := metav1.GetControllerOfNoCopy(v.object); {
	case v.deleting() && waits && w.dependents(v) == 0, v.deleting() && orphans:
		if !ask {
			w.write(v, func(obj client.Object) {
				obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool {
					return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
				}))
			})
		}
		return true
	case v.deleting() || owner == nil:
		return false
	default:
		above := w.server.objects[ref{owner.Kind, owner.Name}]
		there := above != nil && above.uid() == owner.UID
		if there && (!above.deleting() || !slices.Contains(above.object.GetFinalizers(), metav1.FinalizerDeleteDependents)) {
			return false
		}
		if !ask {
			uid := v.uid()
			if err := w.server.delete(v.ref, &metav1.Preconditions{UID: &uid}, metav1.DeletePropagationBackground); err != nil {
				panic(err)
			}
		}
		return true
	}
}

// dependents counts the children of an object.
func (w *world) dependents(v *version) int {
	n := 0
	for _, o := range w.server.objects {
		if metav1.IsControlledBy(o.object, v.object) {
			n++
		}
	}
	return n
}
