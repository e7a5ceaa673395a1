package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// leftover is a child of the application that no component declares.
type leftover struct {
	id        desired.ID
	component string // the component that created the child
	live      Object
}

// findLeftovers returns leftovers in a fixed order, so that the same input gives the same plan.
func (p *planner) findLeftovers() []leftover {
	desiredIDs := map[desired.ID]bool{}
	for _, c := range p.Components {
		for _, child := range c.Children {
			desiredIDs[child.ID] = true
		}
	}
	var out []leftover
	for id, live := range p.Observed {
		if !desiredIDs[id] && p.isControlled(live) && !isPruneDisabled(p.Owner.Keys, live) {
			out = append(out, leftover{id, live.GetLabels()[appsapi.LabelComponent], live})
		}
	}
	slices.SortFunc(out, func(a, b leftover) int { return compareIDs(a.id, b.id) })
	return out
}

func compareIDs(a, b desired.ID) int {
	return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
}

// optionalLeftovers returns the children that a component of the spec no longer needs, such as the
// Service of a component without ports. They are deleted in the step of the component.
func (p *planner) optionalLeftovers(c *desired.Component) []desired.ID {
	var out []desired.ID
	for _, l := range p.leftovers {
		if l.component == c.Name && l.live.GetDeletionTimestamp() == nil && !p.isJobRun(l) && !isPredecessor(c, l) && !p.isMounted(l) {
			out = append(out, l.id)
		}
	}
	return out
}

// isJobRun reports whether a leftover is a Job of a job component of the spec.
func (p *planner) isJobRun(l leftover) bool {
	c := p.components[l.component]
	return c != nil && c.Type == appsapi.ComponentJob && l.id.Kind == desired.KindJob
}

// isPredecessor reports whether a leftover has an earlier resourceName of the component.
func isPredecessor(c *desired.Component, l leftover) bool {
	if l.id.Kind == desired.KindConfigMap {
		return false // a ConfigMap is named after its content and kept while it is mounted
	}
	if c.Data != nil { // all other children keep the original name
		return l.id.Kind == desired.KindService && l.id.Name != c.ServiceName && c.ServiceName != ""
	}
	return c.Type == appsapi.ComponentService && l.id.Name != c.ResourceName ||
		l.id.Kind == desired.KindCronJob && c.Workload.Kind == desired.KindCronJob
}

// planPrune plans the deletion of children that no component declares, and lists the components that
// cannot be deleted yet. All children of one component are deleted together.
func (p *planner) planPrune() (remove []Removal, pending []PendingRemoval) {
	reported := map[string]bool{}
	for _, l := range p.leftovers {
		message, optional := p.removalBlocker(l)
		switch {
		case l.live.GetDeletionTimestamp() != nil:
			if message = ""; len(blockingFinalizers(l.live)) > 0 { // without finalizers the deletion completes within moments
				message = terminatingMessage(l)
			}
		case optional, message == "" && p.isInUse(l):
			continue
		case message == "":
			remove = append(remove, Removal{l.component, l.id})
		}
		if message != "" && !reported[l.component] {
			pending = append(pending, PendingRemoval{Component: l.component, Message: message})
			reported[l.component] = true
		}
	}
	return remove, pending
}

// isInUse reports whether pods still use a leftover. Terminating pods serve for a moment longer,
// and clients need that time to switch to another name. So a Service is deleted after its pods, and
// config files after the pods that mount them.
func (p *planner) isInUse(l leftover) bool {
	return p.isMounted(l) || l.id.Kind == desired.KindService && slices.ContainsFunc(p.leftovers, func(o leftover) bool {
		return o.id == desired.ID{Kind: desired.KindDeployment, Name: l.id.Name} ||
			o.id.Kind == desired.KindStatefulSet && o.component == l.component
	})
}

// removalBlocker returns why a leftover must be kept, or "". optional is set for leftovers that
// planPrune ignores: they are kept, or deleted in the step of their component.
func (p *planner) removalBlocker(l leftover) (message string, optional bool) {
	c := p.components[l.component]
	run, isJob := l.live.(*batchv1.Job)
	switch {
	case isJob && JobFinished(run) && p.ProtectedJobs[run.Annotations[p.Owner.Keys.JobSpec]]:
		return "", true // even if the job was removed from the spec: a rollback may restore it
	case c == nil:
		return p.removedComponentBlocker(l), false
	case c.Suspended:
		return "", true
	case p.isJobRun(l):
		// Active runs are deleted in the step of their component.
		return "", !JobFinished(run)
	case !isPredecessor(c, l):
		return "", true
	}
	return p.renamedChildBlocker(c, l), false
}

// removedComponentBlocker names the component that still needs a removed component.
func (p *planner) removedComponentBlocker(l leftover) string {
	cycle := p.dependencyCycle(l.component)
	for _, c := range p.Components {
		if c.RenamedFrom != "" && cycle[c.RenamedFrom] && !p.healthy(&c) {
			return fmt.Sprintf("Component %q was renamed to %q and is kept until the new component is ready", c.RenamedFrom, c.Name)
		}
	}
	if dependent := p.dependentOf(cycle); dependent != "" {
		return fmt.Sprintf("Component %q was removed from the spec and is kept until no pod of %q depends on it", l.component, dependent)
	}
	return ""
}

// renamedChildBlocker names the component that still needs children with an earlier name.
func (p *planner) renamedChildBlocker(c *desired.Component, l leftover) string {
	if !p.healthy(c) {
		return fmt.Sprintf("%s %s is kept until its replacement %s %s is ready", l.id.Kind.Kind, l.id.Name, c.Workload.Kind.Kind, c.Workload.Name)
	}
	var dependents []string
	transitive := p.transitiveDependencies(c.Name)
	for id, live := range p.Observed {
		dependent := live.GetLabels()[appsapi.LabelComponent]
		switch {
		case dependent == c.Name, !p.belongsToOwner(live), !slices.Contains(p.dependenciesOf(live), c.Name), p.upToDate(dependent, id, live):
		case p.components[dependent] == nil && transitive[dependent]: // a cycle: the dependent waits for this leftover
		default:
			dependents = append(dependents, dependent)
		}
	}
	if len(dependents) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s is kept until no pod of %q depends on it", l.id.Kind.Kind, l.id.Name, slices.Min(dependents))
}

// upToDate reports whether all pods of a workload run the desired template. A Job never changes its
// pods, and terminating pods serve until they are gone.
func (p *planner) upToDate(component string, id desired.ID, live Object) bool {
	c := p.components[component]
	return c != nil && c.Workload == id && id.Kind != desired.KindJob && !ReplacesPods(*c, live) && health.RolledOut(live) && !hasTerminatingPods(live)
}

// hasTerminatingPods reports whether pods of a Deployment are terminating. Kubernetes reports their
// number since version 1.35; the result is false for earlier versions.
func hasTerminatingPods(live Object) bool {
	d, ok := live.(*appsv1.Deployment)
	return ok && d.Status.TerminatingReplicas != nil && *d.Status.TerminatingReplicas > 0
}

// healthy reports whether all children of a component exist, are up to date and ready.
func (p *planner) healthy(c *desired.Component) bool {
	for _, child := range c.Children {
		if live := p.Observed[child.ID]; live == nil || !p.isControlled(live) || health.Evaluate(live).Status != health.Healthy {
			return false
		}
	}
	return !ReplacesPods(*c, p.Observed[c.Workload]) && p.databaseReady(c) // bound components get the new address before the database is ready
}

// dependentOf returns a component that is not in the cycle but has pods that depend on a component
// in the cycle, or "".
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

// dependencyCycle returns a removed component and the removed components that it needs and that
// need it, directly or indirectly. They are deleted together, because none of them can be deleted
// first.
func (p *planner) dependencyCycle(component string) map[string]bool {
	cycle := map[string]bool{component: true}
	for other := range p.transitiveDependencies(component) {
		if p.components[other] == nil && p.transitiveDependencies(other)[component] {
			cycle[other] = true
		}
	}
	return cycle
}

// transitiveDependencies returns the direct and indirect dependencies of a component.
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

// findDependencies returns the dependencies of the existing pods, by component.
func (p *planner) findDependencies() map[string][]string {
	out := map[string][]string{}
	for _, live := range p.Observed {
		if component := live.GetLabels()[appsapi.LabelComponent]; p.belongsToOwner(live) {
			out[component] = append(out[component], p.dependenciesOf(live)...)
		}
	}
	return out
}

// dependenciesOf returns the components that the pods of a workload may need, as recorded at their
// creation.
func (p *planner) dependenciesOf(live Object) []string {
	if run, ok := live.(*batchv1.Job); ok && JobFinished(run) {
		return nil
	}
	return desired.PodDependencies(p.Owner.Keys, live)
}

// pendingDeletion describes why the deletion of a child is pending.
func (p *planner) pendingDeletion(l leftover) PendingRemoval {
	out := PendingRemoval{Component: l.component, Message: terminatingMessage(l)}
	if len(blockingFinalizers(l.live)) == 0 {
		out.Workload = l.live.GetLabels()[p.Owner.Keys.Workload]
	}
	return out
}

func terminatingMessage(l leftover) string {
	name := fmt.Sprintf("%s %s/%s", l.id.Kind.Kind, l.live.GetNamespace(), l.live.GetName())
	since := health.DeletionRequested(l.live)
	if f := blockingFinalizers(l.live); len(f) > 0 {
		return fmt.Sprintf("Waiting for %s to be deleted (deletion requested at %s): blocked by finalizers %s", name, since, strings.Join(f, ", "))
	}
	return fmt.Sprintf("Waiting for the pods of %s to terminate (deletion requested at %s)", name, since)
}

// blockingFinalizers returns the finalizers that another controller must remove. The garbage
// collector removes foregroundDeletion after the pods have terminated.
func blockingFinalizers(live Object) []string {
	return slices.DeleteFunc(slices.Clone(live.GetFinalizers()), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
}
