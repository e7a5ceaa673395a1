package rollout

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// check says what is wrong with a plan for the world as it is.
func (w *world) check(p Plan) error {
	i := 0
	left := w.leftovers()
	for n := range w.parts {
		if w.parts[n].held {
			continue
		}
		if i == len(p.Steps) {
			return fmt.Errorf("no step for %s", w.parts[n].name)
		}
		if err := w.checkStep(n, p.Steps[i], left); err != nil {
			return fmt.Errorf("step of %s: %w", w.parts[n].name, err)
		}
		i++
	}
	if i != len(p.Steps) {
		return fmt.Errorf("%d steps too many", len(p.Steps)-i)
	}
	if i == 0 {
		if len(p.Prune)+len(p.Keep) > 0 {
			return fmt.Errorf("all are suspended, and yet something is pruned or kept")
		}
		return nil
	}
	return w.checkPrune(p, left)
}

// leftovers are what is ours, is not wanted and is not kept on purpose.
func (w *world) leftovers() []desired.ID {
	var out []desired.ID
	for _, id := range w.ids {
		if live := w.seen[id]; !w.wanted[id] && w.ours(id) && live.GetAnnotations()[appsapi.AnnotationPrune] == "" {
			out = append(out, id)
		}
	}
	return out
}

func (w *world) ours(id desired.ID) bool {
	live := w.seen[id]
	if live == nil {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(live)
	return ref != nil && ref.UID == shop.UID
}

func (w *world) owner(id desired.ID) string { return w.seen[id].GetLabels()[appsapi.LabelComponent] }

// open says whether those that need a part may go on.
func (w *world) open(n int) bool {
	p, id := w.parts[n], w.spec[n].Workload
	if p.kind == aCronJob {
		return true
	}
	if !w.ours(id) || w.seen[id].GetDeletionTimestamp() != nil {
		return false
	}
	switch o := w.seen[id].(type) {
	case *batchv1.Job:
		return ended(o, batchv1.JobComplete)
	case *appsv1.Deployment:
		want, s := *o.Spec.Replicas, o.Status
		good := s.ObservedGeneration == o.Generation && (want == 0 || s.ReadyReplicas-(s.Replicas-s.UpdatedReplicas) > want/2)
		return good && (p.held || w.records[id].version == p.version)
	}
	return false
}

// checkStep holds a step against what it has to be: nothing is created and no template is
// changed while a dependency is not ready, and nothing else waits.
func (w *world) checkStep(n int, s Step, left []desired.ID) error {
	p, c := w.parts[n], w.spec[n]
	var closed []string
	for _, need := range p.needs {
		service := desired.ID{Kind: desired.KindService, Name: w.parts[w.index[need]].resource}
		if !w.open(w.index[need]) || slices.Contains(c.BoundTo, need) && !w.ours(service) {
			closed = append(closed, need)
		}
	}
	there, r := w.seen[c.Workload], w.records[c.Workload]
	hold := there != nil && len(closed) > 0 && p.kind != aJob && r != nil && r.version != p.version
	if there != nil && r == nil { // somebody else's: the apply refuses it either way
		hold = slices.ContainsFunc(s.Apply, func(a Application) bool { return a.HoldPods })
	}
	runs := p.kind == aJob && slices.ContainsFunc(left, func(id desired.ID) bool {
		j, ok := w.seen[id].(*batchv1.Job)
		return ok && w.owner(id) == p.name && !ended(j, batchv1.JobComplete) && !ended(j, batchv1.JobFailed)
	})
	var apply []Application
	for _, child := range c.Children {
		if w.ours(c.Workload) || len(closed) == 0 && !runs || w.seen[child.ID] != nil {
			apply = append(apply, Application{Child: desired.Child{ID: child.ID}, HoldPods: hold && child.ID == c.Workload})
		}
	}
	if !hold && (w.ours(c.Workload) || runs) {
		closed = nil
	}
	same := func(a, b Application) bool { return a.ID == b.ID && a.HoldPods == b.HoldPods }
	switch {
	case s.Component != p.name:
		return fmt.Errorf("is of %s", s.Component)
	case !slices.EqualFunc(s.Apply, apply, same):
		return fmt.Errorf("applies %v, must apply %v", s.Apply, apply)
	case !slices.Equal(s.WaitsFor, closed):
		return fmt.Errorf("waits for %v, must wait for %v", s.WaitsFor, closed)
	case runs != (s.Runs != nil):
		return fmt.Errorf("waits for a run: %t, must: %t", s.Runs != nil, runs)
	}
	var remove []desired.ID
	for _, id := range left {
		if w.owner(id) == p.name && w.seen[id].GetDeletionTimestamp() == nil && w.goesInStep(p, id) {
			remove = append(remove, id)
		}
	}
	if len(remove) != len(s.Remove) || slices.ContainsFunc(remove, func(id desired.ID) bool { return !slices.Contains(s.Remove, id) }) {
		return fmt.Errorf("removes %v, must remove %v", s.Remove, remove)
	}
	return nil
}

// goesInStep says whether a leftover of a part is what it could have and does not want.
func (w *world) goesInStep(p part, id desired.ID) bool {
	switch o := w.seen[id].(type) {
	case *batchv1.Job:
		return p.kind == aJob && !ended(o, batchv1.JobComplete) && !ended(o, batchv1.JobFailed)
	case *batchv1.CronJob:
		return p.kind == aJob
	}
	return id.Name == p.resource
}

// serves says whether a Service leads to pods that are among these.
func serves(id desired.ID, left []desired.ID) bool {
	return id.Kind == desired.KindService && slices.Contains(left, desired.ID{Kind: desired.KindDeployment, Name: id.Name})
}

// checkPrune holds what is pruned against what pods need, and what is not against what the
// annotations tell.
func (w *world) checkPrune(p Plan, left []desired.ID) error {
	pruned := map[desired.ID]bool{}
	for _, r := range p.Prune {
		pruned[r.Child] = true
		if !slices.Contains(left, r.Child) || r.Component != w.owner(r.Child) || w.seen[r.Child].GetDeletionTimestamp() != nil {
			return fmt.Errorf("prunes %s, which is not left over", nameOf(r.Child))
		}
		if user := w.needed(r.Child); user != "" {
			return fmt.Errorf("prunes %s of %s, which %s needs", nameOf(r.Child), r.Component, user)
		}
		if serves(r.Child, left) {
			return fmt.Errorf("prunes %s of %s before the pods it leads to", nameOf(r.Child), r.Component)
		}
	}
	for _, id := range left {
		if w.part(w.owner(id)) == nil && !pruned[id] && w.seen[id].GetDeletionTimestamp() == nil && w.free(id) && !serves(id, left) {
			return fmt.Errorf("does not prune %s of %s, which nobody needs", nameOf(id), w.owner(id))
		}
	}
	return nil
}

// kept says whether a leftover is a run that must not run again.
func (w *world) kept(id desired.ID) bool {
	j, ok := w.seen[id].(*batchv1.Job)
	return ok && j.DeletionTimestamp == nil && (ended(j, batchv1.JobComplete) || ended(j, batchv1.JobFailed)) && w.keep[j.Annotations[appsapi.AnnotationJobSpec]]
}

// needed is who needs a leftover: with pods that run and were made with it, or as what
// replaces it and is not there yet. Those with which it is needed in a circle do not count.
func (w *world) needed(id desired.ID) string {
	name := w.owner(id)
	if w.kept(id) {
		return "whoever goes back to an earlier revision"
	}
	own := w.part(name)
	if own != nil && own.held {
		return "whoever suspended it"
	}
	if own != nil && id.Kind == desired.KindJob {
		return ""
	}
	if own != nil && !w.well(w.index[name]) {
		return "nobody yet, but " + name + " is not ready"
	}
	for n, p := range w.parts {
		if p.from == name && !w.well(n) {
			return p.name + ", its successor,"
		}
	}
	for _, user := range w.ids {
		r := w.records[user]
		if r == nil || w.owner(user) == name || !w.runs(user) {
			continue
		}
		circle := w.part(w.owner(user)) == nil && w.reaches(name, w.owner(user))
		for _, pod := range r.pods {
			if !circle && own == nil && slices.ContainsFunc(pod, func(a address) bool { return a.component == name }) {
				return w.owner(user)
			}
			if !circle && own != nil && slices.Contains(pod, address{name, id.Name}) && slices.Contains(desired.Edges(w.seen[user]), name) {
				return w.owner(user)
			}
		}
	}
	return ""
}

// runs says whether a workload may have pods.
func (w *world) runs(id desired.ID) bool {
	j, ok := w.seen[id].(*batchv1.Job)
	return !ok || j.DeletionTimestamp != nil || !ended(j, batchv1.JobComplete) && !ended(j, batchv1.JobFailed)
}

// well says whether all of a part is there and as it shall be.
func (w *world) well(n int) bool {
	for _, child := range w.spec[n].Children {
		if !w.ours(child.ID) || w.seen[child.ID].GetDeletionTimestamp() != nil {
			return false
		}
		switch o := w.seen[child.ID].(type) {
		case *batchv1.Job:
			if !ended(o, batchv1.JobComplete) {
				return false
			}
		case *appsv1.Deployment:
			want, s := *o.Spec.Replicas, o.Status
			if s.ObservedGeneration != o.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want && want > 0 {
				return false
			}
		}
	}
	id := w.spec[n].Workload
	return id.Kind == desired.KindJob || w.records[id].version == w.parts[n].version
}

// free says whether nobody needs a leftover of a component that left the spec, by what
// anybody can see.
func (w *world) free(id desired.ID) bool {
	name := w.owner(id)
	if w.kept(id) {
		return false
	}
	for _, user := range w.ids {
		component := w.owner(user)
		if component == name || !w.mine(w.seen[user]) || !w.reaches(component, name) {
			continue
		}
		if w.part(component) != nil || !w.reaches(name, component) {
			return false
		}
		if slices.ContainsFunc(w.parts, func(p part) bool { return p.from == component && !w.well(w.index[p.name]) }) {
			return false
		}
	}
	return !slices.ContainsFunc(w.parts, func(p part) bool { return p.from == name && !w.well(w.index[p.name]) })
}

// reaches says whether a component needs another one, also through others, by what the
// annotations of those that run tell.
func (w *world) reaches(from, to string) bool {
	return w.leads(slices.DeleteFunc(slices.Clone(w.ids), func(id desired.ID) bool { return !w.mine(w.seen[id]) || !w.runs(id) }), from, to)
}

// leads says whether there is a way from one component to another over the edges of some
// workloads.
func (w *world) leads(over []desired.ID, from, to string) bool {
	been := map[string]bool{}
	var walk func(string) bool
	walk = func(name string) bool {
		if been[name] {
			return false
		}
		been[name] = true
		for _, id := range over {
			if w.owner(id) != name {
				continue
			}
			for _, e := range desired.Edges(w.seen[id]) {
				if e == to || walk(e) {
					return true
				}
			}
		}
		return false
	}
	return walk(from)
}

// atRest says what is missing until everything is as the spec says and nothing else is
// left.
func (w *world) atRest(p Plan) error {
	for n, s := range p.Steps {
		c := w.spec[n]
		if s.Waits() || len(s.Remove) > 0 || len(s.Apply) != len(c.Children) || !w.well(n) {
			return fmt.Errorf("%s is not at rest: %+v", c.Name, s)
		}
	}
	if len(p.Prune)+len(p.Keep) > 0 {
		return fmt.Errorf("something is left: prune %v, keep %v", p.Prune, p.Keep)
	}
	for _, id := range w.ids {
		if !w.wanted[id] && !w.kept(id) {
			return fmt.Errorf("%s is left", nameOf(id))
		}
	}
	return nil
}

// checkDown holds what is deleted against what those that are left were made with.
func (w *world) checkDown(d Teardown) error {
	var stays []desired.ID
	for _, id := range w.ids {
		if w.ours(id) && w.seen[id].GetAnnotations()[appsapi.AnnotationPrune] == "" {
			stays = append(stays, id)
		}
	}
	// user needs it, if only through others, and is not needed by it: else they go together.
	user := func(id desired.ID) string {
		for _, o := range stays {
			if a, b := w.owner(o), w.owner(id); a != b && w.leads(stays, a, b) && !w.leads(stays, b, a) {
				return a
			}
		}
		return ""
	}
	deleted := map[desired.ID]bool{}
	for _, r := range d.Delete {
		if !slices.Contains(stays, r.Child) || w.seen[r.Child].GetDeletionTimestamp() != nil || deleted[r.Child] {
			return fmt.Errorf("deletes %s, which is not to be deleted", nameOf(r.Child))
		}
		if u := user(r.Child); u != "" {
			return fmt.Errorf("deletes %s of %s, which %s needs", nameOf(r.Child), r.Component, u)
		}
		if serves(r.Child, stays) {
			return fmt.Errorf("deletes %s before the pods it leads to", nameOf(r.Child))
		}
		deleted[r.Child] = true
	}
	for _, id := range stays {
		if user(id) == "" && !serves(id, stays) && !deleted[id] && w.seen[id].GetDeletionTimestamp() == nil {
			return fmt.Errorf("does not delete %s, which nobody needs", nameOf(id))
		}
	}
	if d.Done != (len(stays) == 0) {
		return fmt.Errorf("done: %t, with %d children left", d.Done, len(stays))
	}
	return nil
}
