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

// check returns an error if a plan is wrong for the current world.
func (w *world) check(p Plan) error {
	i := 0
	leftovers := w.leftovers()
	for n := range w.testComponents {
		if w.testComponents[n].suspended {
			continue
		}
		if i == len(p.Steps) {
			return fmt.Errorf("no step for %s", w.testComponents[n].name)
		}
		if err := w.checkStep(n, p.Steps[i], leftovers); err != nil {
			return fmt.Errorf("step of %s: %w", w.testComponents[n].name, err)
		}
		i++
	}
	if i != len(p.Steps) {
		return fmt.Errorf("%d unexpected steps", len(p.Steps)-i)
	}
	if i == 0 {
		if len(p.Prune)+len(p.PendingRemovals) > 0 {
			return fmt.Errorf("everything is suspended, but something is pruned or pending")
		}
		return nil
	}
	return w.checkPrune(p, leftovers)
}

// leftovers are controlled children that are not desired and not protected.
func (w *world) leftovers() []desired.ID {
	var out []desired.ID
	for _, id := range w.ids {
		if live := w.observed[id]; !w.desiredIDs[id] && w.controlled(id) && live.GetAnnotations()[appsapi.DefaultKeys.Prune] == "" {
			out = append(out, id)
		}
	}
	return out
}

func (w *world) controlled(id desired.ID) bool {
	live := w.observed[id]
	if live == nil {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(live)
	return ref != nil && ref.UID == shop.UID
}

func (w *world) componentOf(id desired.ID) string {
	return w.observed[id].GetLabels()[appsapi.LabelComponent]
}

// isSatisfied reports whether dependents of a component can proceed.
func (w *world) isSatisfied(n int) bool {
	p, id := w.testComponents[n], w.spec[n].Workload
	if p.kind == kindCronJob {
		return true
	}
	if !w.controlled(id) || w.observed[id].GetDeletionTimestamp() != nil {
		return false
	}
	switch o := w.observed[id].(type) {
	case *batchv1.Job:
		return jobHasCondition(o, batchv1.JobComplete)
	case *appsv1.Deployment:
		want, s := *o.Spec.Replicas, o.Status
		settled := s.AvailableReplicas // pods without a probe are ready before their program has settled
		for _, c := range o.Spec.Template.Spec.Containers {
			if c.ReadinessProbe != nil {
				settled = s.ReadyReplicas
			}
		}
		good := s.ObservedGeneration == o.Generation && (want == 0 || settled-(s.Replicas-s.UpdatedReplicas) > want/2)
		return good && (p.suspended || w.records[id].version == p.version)
	}
	return false
}

// checkStep compares a step with the expected one: nothing is created and no pod template changes
// while a dependency is not ready, and nothing else waits.
func (w *world) checkStep(n int, s Step, leftovers []desired.ID) error {
	p, c := w.testComponents[n], w.spec[n]
	var unsatisfied []string
	for _, dep := range p.dependencies {
		service := desired.ID{Kind: desired.KindService, Name: w.testComponents[w.index[dep]].resourceName}
		if !w.isSatisfied(w.index[dep]) || slices.Contains(c.BoundTo, dep) && !w.controlled(service) {
			unsatisfied = append(unsatisfied, dep)
		}
	}
	existing, r := w.observed[c.Workload], w.records[c.Workload]
	holdPodTemplate := existing != nil && len(unsatisfied) > 0 && p.kind != kindJob && r != nil && r.version != p.version
	if existing != nil && r == nil { // another owner has it; the apply rejects it either way
		holdPodTemplate = slices.ContainsFunc(s.Apply, func(a ChildApply) bool { return a.HoldPodTemplate })
	}
	runs := p.kind == kindJob && slices.ContainsFunc(leftovers, func(id desired.ID) bool {
		j, ok := w.observed[id].(*batchv1.Job)
		return ok && w.componentOf(id) == p.name && !jobHasCondition(j, batchv1.JobComplete) && !jobHasCondition(j, batchv1.JobFailed)
	})
	var apply []ChildApply
	for _, child := range c.Children {
		if w.controlled(c.Workload) || len(unsatisfied) == 0 && !runs || w.observed[child.ID] != nil {
			apply = append(apply, ChildApply{Child: desired.Child{ID: child.ID}, HoldPodTemplate: holdPodTemplate && child.ID == c.Workload})
		}
	}
	if !holdPodTemplate && (w.controlled(c.Workload) || runs) {
		unsatisfied = nil
	}
	same := func(a, b ChildApply) bool { return a.ID == b.ID && a.HoldPodTemplate == b.HoldPodTemplate }
	switch {
	case s.Component != p.name:
		return fmt.Errorf("belongs to %s", s.Component)
	case !slices.EqualFunc(s.Apply, apply, same):
		return fmt.Errorf("applies %v, must apply %v", s.Apply, apply)
	case !slices.Equal(s.WaitsFor, unsatisfied):
		return fmt.Errorf("waits for %v, must wait for %v", s.WaitsFor, unsatisfied)
	case runs != (s.PreviousRun != nil):
		return fmt.Errorf("waits for a previous run: %t, want %t", s.PreviousRun != nil, runs)
	}
	var remove []desired.ID
	for _, id := range leftovers {
		if w.componentOf(id) == p.name && w.observed[id].GetDeletionTimestamp() == nil && w.isRemovedInStep(p, id) {
			remove = append(remove, id)
		}
	}
	if len(remove) != len(s.Remove) || slices.ContainsFunc(remove, func(id desired.ID) bool { return !slices.Contains(s.Remove, id) }) {
		return fmt.Errorf("removes %v, must remove %v", s.Remove, remove)
	}
	return nil
}

// isRemovedInStep reports whether a leftover is an optional child of a component.
func (w *world) isRemovedInStep(p testComponent, id desired.ID) bool {
	switch o := w.observed[id].(type) {
	case *batchv1.Job:
		return p.kind == kindJob && !jobHasCondition(o, batchv1.JobComplete) && !jobHasCondition(o, batchv1.JobFailed)
	case *batchv1.CronJob:
		return p.kind == kindJob
	}
	return id.Name == p.resourceName
}

// servesPods reports whether a Service selects pods among these workloads.
func servesPods(id desired.ID, left []desired.ID) bool {
	return id.Kind == desired.KindService && slices.Contains(left, desired.ID{Kind: desired.KindDeployment, Name: id.Name})
}

// checkPrune compares the pruned children with the needs of the pods, and the others with the
// annotations.
func (w *world) checkPrune(p Plan, leftovers []desired.ID) error {
	pruned := map[desired.ID]bool{}
	for _, r := range p.Prune {
		pruned[r.Child] = true
		if !slices.Contains(leftovers, r.Child) || r.Component != w.componentOf(r.Child) || w.observed[r.Child].GetDeletionTimestamp() != nil {
			return fmt.Errorf("prunes %s, which is not a leftover", describeID(r.Child))
		}
		if dependent := w.neededBy(r.Child); dependent != "" {
			return fmt.Errorf("prunes %s of %s, which %s needs", describeID(r.Child), r.Component, dependent)
		}
		if servesPods(r.Child, leftovers) {
			return fmt.Errorf("prunes %s of %s before its pods", describeID(r.Child), r.Component)
		}
	}
	for _, id := range leftovers {
		if w.component(w.componentOf(id)) == nil && !pruned[id] && w.observed[id].GetDeletionTimestamp() == nil && w.isUnneeded(id) && !servesPods(id, leftovers) {
			return fmt.Errorf("does not prune %s of %s, which has no dependents", describeID(id), w.componentOf(id))
		}
	}
	return nil
}

// isProtectedRun reports whether a leftover is a run that must not run again.
func (w *world) isProtectedRun(id desired.ID) bool {
	j, ok := w.observed[id].(*batchv1.Job)
	return ok && j.DeletionTimestamp == nil && (jobHasCondition(j, batchv1.JobComplete) || jobHasCondition(j, batchv1.JobFailed)) && w.protectedJobs[j.Annotations[appsapi.DefaultKeys.JobSpec]]
}

// neededBy returns what needs a leftover: running pods that were created with it, or a replacement
// that is not ready. Components in a cycle with it do not count.
func (w *world) neededBy(id desired.ID) string {
	name := w.componentOf(id)
	if w.isProtectedRun(id) {
		return "a rollback"
	}
	current := w.component(name)
	if current != nil && current.suspended {
		return "a suspended component"
	}
	if current != nil && id.Kind == desired.KindJob {
		return ""
	}
	if current != nil && !w.isHealthy(w.index[name]) {
		return "the replacement " + name + " is not ready"
	}
	for n, p := range w.testComponents {
		if p.renamedFrom == name && !w.isHealthy(n) {
			return p.name + ", its successor,"
		}
	}
	for _, dependent := range w.ids {
		r := w.records[dependent]
		if r == nil || w.componentOf(dependent) == name || !w.mayHavePods(dependent) {
			continue
		}
		cycle := w.component(w.componentOf(dependent)) == nil && w.dependsTransitively(name, w.componentOf(dependent))
		for _, pod := range r.pods {
			if !cycle && current == nil && slices.ContainsFunc(pod, func(a address) bool { return a.component == name }) {
				return w.componentOf(dependent)
			}
			if !cycle && current != nil && slices.Contains(pod, address{name, id.Name}) && slices.Contains(desired.PodDependencies(appsapi.DefaultKeys, w.observed[dependent]), name) {
				return w.componentOf(dependent)
			}
		}
	}
	return ""
}

// mayHavePods reports whether a workload may have pods.
func (w *world) mayHavePods(id desired.ID) bool {
	j, ok := w.observed[id].(*batchv1.Job)
	return !ok || j.DeletionTimestamp != nil || !jobHasCondition(j, batchv1.JobComplete) && !jobHasCondition(j, batchv1.JobFailed)
}

// isHealthy reports whether a component is complete, up to date and ready.
func (w *world) isHealthy(n int) bool {
	for _, child := range w.spec[n].Children {
		if !w.controlled(child.ID) || w.observed[child.ID].GetDeletionTimestamp() != nil {
			return false
		}
		switch o := w.observed[child.ID].(type) {
		case *batchv1.Job:
			if !jobHasCondition(o, batchv1.JobComplete) {
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
	return id.Kind == desired.KindJob || w.records[id].version == w.testComponents[n].version
}

// isUnneeded reports whether a leftover of a removed component has no dependents, according to the
// annotations.
func (w *world) isUnneeded(id desired.ID) bool {
	name := w.componentOf(id)
	if w.isProtectedRun(id) {
		return false
	}
	for _, user := range w.ids {
		component := w.componentOf(user)
		if component == name || !w.ownedOrUnreferenced(w.observed[user]) || !w.dependsTransitively(component, name) {
			continue
		}
		if w.component(component) != nil || !w.dependsTransitively(name, component) {
			return false
		}
		if slices.ContainsFunc(w.testComponents, func(p testComponent) bool { return p.renamedFrom == component && !w.isHealthy(w.index[p.name]) }) {
			return false
		}
	}
	return !slices.ContainsFunc(w.testComponents, func(p testComponent) bool { return p.renamedFrom == name && !w.isHealthy(w.index[p.name]) })
}

// dependsTransitively reports whether a component depends on another one, directly or indirectly,
// according to the annotations of the live workloads.
func (w *world) dependsTransitively(from, to string) bool {
	return w.hasPath(slices.DeleteFunc(slices.Clone(w.ids), func(id desired.ID) bool { return !w.ownedOrUnreferenced(w.observed[id]) || !w.mayHavePods(id) }), from, to)
}

// hasPath reports whether one component leads to another over the dependencies of some workloads.
func (w *world) hasPath(over []desired.ID, from, to string) bool {
	visited := map[string]bool{}
	var walk func(string) bool
	walk = func(name string) bool {
		if visited[name] {
			return false
		}
		visited[name] = true
		for _, id := range over {
			if w.componentOf(id) != name {
				continue
			}
			for _, e := range desired.PodDependencies(appsapi.DefaultKeys, w.observed[id]) {
				if e == to || walk(e) {
					return true
				}
			}
		}
		return false
	}
	return walk(from)
}

// checkConverged returns an error until the state matches the spec and nothing else is left.
func (w *world) checkConverged(p Plan) error {
	for n, s := range p.Steps {
		c := w.spec[n]
		if s.IsWaiting() || len(s.Remove) > 0 || len(s.Apply) != len(c.Children) || !w.isHealthy(n) {
			return fmt.Errorf("%s has not converged: %+v", c.Name, s)
		}
	}
	if len(p.Prune)+len(p.PendingRemovals) > 0 {
		return fmt.Errorf("leftovers: prune %v, pending %v", p.Prune, p.PendingRemovals)
	}
	for _, id := range w.ids {
		if !w.desiredIDs[id] && !w.isProtectedRun(id) {
			return fmt.Errorf("%s is left", describeID(id))
		}
	}
	return nil
}

// checkTeardown compares the planned deletions with the dependencies of the remaining children.
func (w *world) checkTeardown(d Teardown) error {
	var remaining []desired.ID
	for _, id := range w.ids {
		if w.controlled(id) && w.observed[id].GetAnnotations()[appsapi.DefaultKeys.Prune] == "" {
			remaining = append(remaining, id)
		}
	}
	// user needs it, if only through others, and is not needed by it: else they go together.
	dependentOf := func(id desired.ID) string {
		for _, o := range remaining {
			if a, b := w.componentOf(o), w.componentOf(id); a != b && w.hasPath(remaining, a, b) && !w.hasPath(remaining, b, a) {
				return a
			}
		}
		return ""
	}
	deleted := map[desired.ID]bool{}
	for _, r := range d.Delete {
		if !slices.Contains(remaining, r.Child) || w.observed[r.Child].GetDeletionTimestamp() != nil || deleted[r.Child] {
			return fmt.Errorf("deletes %s, which must not be deleted", describeID(r.Child))
		}
		if u := dependentOf(r.Child); u != "" {
			return fmt.Errorf("deletes %s of %s, which %s needs", describeID(r.Child), r.Component, u)
		}
		if servesPods(r.Child, remaining) {
			return fmt.Errorf("deletes %s before its pods", describeID(r.Child))
		}
		deleted[r.Child] = true
	}
	for _, id := range remaining {
		if dependentOf(id) == "" && !servesPods(id, remaining) && !deleted[id] && w.observed[id].GetDeletionTimestamp() == nil {
			return fmt.Errorf("does not delete %s, which has no dependents", describeID(id))
		}
	}
	if d.Done != (len(remaining) == 0) {
		return fmt.Errorf("done: %t with %d remaining children", d.Done, len(remaining))
	}
	return nil
}
