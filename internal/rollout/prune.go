package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// leftover is a child of ours that no component wants.
type leftover struct {
	id        desired.ID
	component string // that it was made for
	live      Object
}

// findLeftovers returns them in a fixed order, so that the same input gives the same plan.
func (p *planner) findLeftovers() []leftover {
	desiredIDs := map[desired.ID]bool{}
	for _, c := range p.Components {
		for _, child := range c.Children {
			desiredIDs[child.ID] = true
		}
	}
	var out []leftover
	for id, live := range p.Observed {
		if !desiredIDs[id] && p.controlled(live) && !pruneDisabled(live) {
			out = append(out, leftover{id, live.GetLabels()[appsapi.LabelComponent], live})
		}
	}
	slices.SortFunc(out, func(a, b leftover) int { return compareIDs(a.id, b.id) })
	return out
}

func compareIDs(a, b desired.ID) int {
	return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
}

// optionalLeftovers are the children that a component of the spec could have and does not want: a
// Service without ports, a CronJob without a schedule. They go in its own step.
func (p *planner) optionalLeftovers(c *desired.Component) []desired.ID {
	var out []desired.ID
	for _, l := range p.leftovers {
		if l.component == c.Name && l.live.GetDeletionTimestamp() == nil && !p.isJobRun(l) && !isPredecessor(c, l) && !p.isMounted(l) {
			out = append(out, l.id)
		}
	}
	return out
}

// isJobRun says whether a leftover is a Job of a job that is still in the spec.
func (p *planner) isJobRun(l leftover) bool {
	c := p.components[l.component]
	return c != nil && c.Type == appsapi.ComponentJob && l.id.Kind == desired.KindJob
}

// isPredecessor says whether a leftover is of the time when the component's children had
// another name.
func isPredecessor(c *desired.Component, l leftover) bool {
	if l.id.Kind == desired.KindConfigMap {
		return false // named after its content: whoever mounts it needs it, nobody else
	}
	if c.Data != nil { // the rest keeps the name that it was made with
		return l.id.Kind == desired.KindService && l.id.Name != c.ServiceName && c.ServiceName != ""
	}
	return c.Type == appsapi.ComponentService && l.id.Name != c.ResourceName ||
		l.id.Kind == desired.KindCronJob && c.Workload.Kind == desired.KindCronJob
}

// prune decides about what left the spec. Everything that was made for one component
// goes together.
func (p *planner) prune() (remove []Removal, pending []PendingRemoval) {
	reported := map[string]bool{}
	for _, l := range p.leftovers {
		message, optional := p.removalBlocker(l)
		switch {
		case l.live.GetDeletionTimestamp() != nil:
			if message = ""; len(blockingFinalizers(l.live)) > 0 { // else it is as good as gone
				message = terminatingMessage(l)
			}
		case optional, message == "" && p.isInUse(l):
			continue
		case message == "":
			remove = append(remove, Removal{l.component, l.id})
		}
		if message != "" && !reported[l.component] {
			pending = append(pending, PendingRemoval{l.component, message})
			reported[l.component] = true
		}
	}
	return remove, pending
}

// isInUse says whether a leftover leads to pods that are still there. Pods on their way out
// serve a moment longer, and clients need that moment to learn of another name: so a
// Service goes after what it leads to, and files after those who read them.
func (p *planner) isInUse(l leftover) bool {
	return p.isMounted(l) || l.id.Kind == desired.KindService && slices.ContainsFunc(p.leftovers, func(o leftover) bool {
		return o.id == desired.ID{Kind: desired.KindDeployment, Name: l.id.Name} ||
			o.id.Kind == desired.KindStatefulSet && o.component == l.component
	})
}

// removalBlocker is why a leftover has to stay, or nothing. optional ones are not decided here.
func (p *planner) removalBlocker(l leftover) (message string, optional bool) {
	c := p.components[l.component]
	run, isJob := l.live.(*batchv1.Job)
	switch {
	case isJob && JobFinished(run) && p.ProtectedJobs[run.Annotations[appsapi.AnnotationJobSpec]]:
		return "", true // also when the job left the spec: one may go back to a revision that has it
	case c == nil:
		return p.removedComponentBlocker(l), false
	case c.Suspended:
		return "", true
	case p.isJobRun(l):
		// Those at work are ended in the step of their component.
		return "", !JobFinished(run)
	case !isPredecessor(c, l):
		return "", true
	}
	return p.renamedChildBlocker(c, l), false
}

// removedComponentBlocker says who still needs a component that left the spec.
func (p *planner) removedComponentBlocker(l leftover) string {
	cycle := p.dependencyCycle(l.component)
	for _, c := range p.Components {
		if c.RenamedFrom != "" && cycle[c.RenamedFrom] && !p.healthy(&c) {
			return fmt.Sprintf("Component %q was renamed to %q and stays until that is ready", c.RenamedFrom, c.Name)
		}
	}
	if dependent := p.dependentOf(cycle); dependent != "" {
		return fmt.Sprintf("Component %q left the spec and stays until no pod of %q needs it", l.component, dependent)
	}
	return ""
}

// renamedChildBlocker says who still needs children under a name that the component had before.
func (p *planner) renamedChildBlocker(c *desired.Component, l leftover) string {
	if !p.healthy(c) {
		return fmt.Sprintf("%s %s stays until %s %s, which replaces it, is ready", l.id.Kind.Kind, l.id.Name, c.Workload.Kind.Kind, c.Workload.Name)
	}
	var dependents []string
	transitive := p.transitiveDependencies(c.Name)
	for id, live := range p.Observed {
		dependent := live.GetLabels()[appsapi.LabelComponent]
		switch {
		case dependent == c.Name, !p.belongsToOwner(live), !slices.Contains(dependenciesOf(live), c.Name), p.upToDate(dependent, id, live):
		case p.components[dependent] == nil && transitive[dependent]: // a circle: that one waits for this
		default:
			dependents = append(dependents, dependent)
		}
	}
	if len(dependents) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s stays until no pod of %q needs it", l.id.Kind.Kind, l.id.Name, slices.Min(dependents))
}

// upToDate says whether all pods of a workload are what is wanted now. Those of a Job stay
// what they were when it began, and those on their way out serve until they are gone.
func (p *planner) upToDate(component string, id desired.ID, live Object) bool {
	c := p.components[component]
	return c != nil && c.Workload == id && id.Kind != desired.KindJob && !ReplacesPods(*c, live) && health.RolledOut(live) && !hasTerminatingPods(live)
}

// hasTerminatingPods says whether pods of a workload are on their way out, where Kubernetes counts them (since 1.35).
func hasTerminatingPods(live Object) bool {
	d, ok := live.(*appsv1.Deployment)
	return ok && d.Status.TerminatingReplicas != nil && *d.Status.TerminatingReplicas > 0
}

// healthy says whether all of a component is there and ready as it is wanted.
func (p *planner) healthy(c *desired.Component) bool {
	for _, child := range c.Children {
		if live := p.Observed[child.ID]; live == nil || !p.controlled(live) || health.Evaluate(live).Status != health.Healthy {
			return false
		}
	}
	return !ReplacesPods(*c, p.Observed[c.Workload]) && p.databaseReady(c) // who is bound to it is told its new address before that
}

// dependentOf is a component with pods that need one of a circle and is not in it.
func (p *planner) dependentOf(cycle map[string]bool) string {
	var dependents []string
	for dependent, deps := range p.dependencies {
		if !cycle[dependent] && slices.ContainsFunc(deps, func(dependency string) bool { return cycle[dependency] }) {
			dependents = append(dependents, dependent)
		}
	}
	if len(dependents) == 0 {
		return ""
	}
	return slices.Min(dependents)
}

// dependencyCycle is a component that left the spec with those others that it needs and that need
// it, if only through others. They go together: none of them could be the first.
func (p *planner) dependencyCycle(component string) map[string]bool {
	cycle := map[string]bool{component: true}
	for other := range p.transitiveDependencies(component) {
		if p.components[other] == nil && p.transitiveDependencies(other)[component] {
			cycle[other] = true
		}
	}
	return cycle
}

// transitiveDependencies are the components that one needs, also through others.
func (p *planner) transitiveDependencies(component string) map[string]bool {
	reached := map[string]bool{}
	for next := []string{component}; len(next) > 0; next = next[1:] {
		for _, dependency := range p.dependencies[next[0]] {
			if !reached[dependency] {
				reached[dependency] = true
				next = append(next, dependency)
			}
		}
	}
	return reached
}

// findDependencies says which components the pods of which one need.
func (p *planner) findDependencies() map[string][]string {
	out := map[string][]string{}
	for _, live := range p.Observed {
		if component := live.GetLabels()[appsapi.LabelComponent]; p.belongsToOwner(live) {
			out[component] = append(out[component], dependenciesOf(live)...)
		}
	}
	return out
}

// dependenciesOf are the components that pods of a workload may need, by what they were made with.
func dependenciesOf(live Object) []string {
	if run, ok := live.(*batchv1.Job); ok && JobFinished(run) {
		return nil
	}
	return desired.PodDependencies(live)
}

// terminatingMessage says what a child that is being deleted waits for, and since when.
func terminatingMessage(l leftover) string {
	name := fmt.Sprintf("%s %s/%s", l.id.Kind.Kind, l.live.GetNamespace(), l.live.GetName())
	since := l.live.GetDeletionTimestamp().UTC().Format(time.RFC3339)
	if f := blockingFinalizers(l.live); len(f) > 0 {
		return fmt.Sprintf("%s is being deleted since %s and waits for the finalizers %s", name, since, strings.Join(f, ", "))
	}
	return fmt.Sprintf("%s is being deleted since %s and waits for its pods to end", name, since)
}

// blockingFinalizers are those that keep a child; the one that makes it wait for its pods does not
// need anybody's help.
func blockingFinalizers(live Object) []string {
	return slices.DeleteFunc(slices.Clone(live.GetFinalizers()), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
}
