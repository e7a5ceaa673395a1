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
	wanted := map[desired.ID]bool{}
	for _, c := range p.Components {
		for _, child := range c.Children {
			wanted[child.ID] = true
		}
	}
	var out []leftover
	for id, live := range p.Seen {
		if !wanted[id] && p.ours(live) && !keptOnPurpose(live) {
			out = append(out, leftover{id, live.GetLabels()[appsapi.LabelComponent], live})
		}
	}
	slices.SortFunc(out, func(a, b leftover) int { return compareIDs(a.id, b.id) })
	return out
}

func compareIDs(a, b desired.ID) int {
	return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
}

// optional are the children that a component of the spec could have and does not want: a
// Service without ports, a CronJob without a schedule. They go in its own step.
func (p *planner) optional(c *desired.Component) []desired.ID {
	var out []desired.ID
	for _, l := range p.leftovers {
		if l.component == c.Name && l.live.GetDeletionTimestamp() == nil && !p.isRun(l) && !isPredecessor(c, l) && !p.mounted(l) {
			out = append(out, l.id)
		}
	}
	return out
}

// isRun says whether a leftover is a Job of a job that is still in the spec.
func (p *planner) isRun(l leftover) bool {
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
		return l.id.Kind == desired.KindService && l.id.Name != c.Address && c.Address != ""
	}
	return c.Type == appsapi.ComponentService && l.id.Name != c.ResourceName ||
		l.id.Kind == desired.KindCronJob && c.Workload.Kind == desired.KindCronJob
}

// prune decides about what left the spec. Everything that was made for one component
// goes together.
func (p *planner) prune() (remove []Removal, keep []Kept) {
	kept := map[string]bool{}
	for _, l := range p.leftovers {
		why, optional := p.reason(l)
		switch {
		case l.live.GetDeletionTimestamp() != nil:
			if why = ""; len(finalizers(l.live)) > 0 { // else it is as good as gone
				why = leaving(l)
			}
		case optional, why == "" && p.serves(l):
			continue
		case why == "":
			remove = append(remove, Removal{l.component, l.id})
		}
		if why != "" && !kept[l.component] {
			keep = append(keep, Kept{l.component, why})
			kept[l.component] = true
		}
	}
	return remove, keep
}

// serves says whether a leftover leads to pods that are still there. Pods on their way out
// serve a moment longer, and clients need that moment to learn of another name: so a
// Service goes after what it leads to, and files after those who read them.
func (p *planner) serves(l leftover) bool {
	return p.mounted(l) || l.id.Kind == desired.KindService && slices.ContainsFunc(p.leftovers, func(o leftover) bool {
		return o.id == desired.ID{Kind: desired.KindDeployment, Name: l.id.Name} ||
			o.id.Kind == desired.KindStatefulSet && o.component == l.component
	})
}

// reason is why a leftover has to stay, or nothing. optional ones are not decided here.
func (p *planner) reason(l leftover) (why string, optional bool) {
	c := p.components[l.component]
	run, isJob := l.live.(*batchv1.Job)
	switch {
	case isJob && Finished(run) && p.KeepJobs[run.Annotations[appsapi.AnnotationJobSpec]]:
		return "", true // also when the job left the spec: one may go back to a revision that has it
	case c == nil:
		return p.needed(l), false
	case c.Suspended:
		return "", true
	case p.isRun(l):
		// Those at work are ended in the step of their component.
		return "", !Finished(run)
	case !isPredecessor(c, l):
		return "", true
	}
	return p.replaced(c, l), false
}

// needed says who still needs a component that left the spec.
func (p *planner) needed(l leftover) string {
	circle := p.circle(l.component)
	for _, c := range p.Components {
		if c.RenamedFrom != "" && circle[c.RenamedFrom] && !p.healthy(&c) {
			return fmt.Sprintf("Component %q was renamed to %q and stays until that is ready", c.RenamedFrom, c.Name)
		}
	}
	if user := p.user(circle); user != "" {
		return fmt.Sprintf("Component %q left the spec and stays until no pod of %q needs it", l.component, user)
	}
	return ""
}

// replaced says who still needs children under a name that the component had before.
func (p *planner) replaced(c *desired.Component, l leftover) string {
	if !p.healthy(c) {
		return fmt.Sprintf("%s %s stays until %s %s, which replaces it, is ready", l.id.Kind.Kind, l.id.Name, c.Workload.Kind.Kind, c.Workload.Name)
	}
	var users []string
	needed := p.reach(c.Name)
	for id, live := range p.Seen {
		user := live.GetLabels()[appsapi.LabelComponent]
		switch {
		case user == c.Name, !p.runsForUs(live), !slices.Contains(needs(live), c.Name), p.upToDate(user, id, live):
		case p.components[user] == nil && needed[user]: // a circle: that one waits for this
		default:
			users = append(users, user)
		}
	}
	if len(users) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s stays until no pod of %q needs it", l.id.Kind.Kind, l.id.Name, slices.Min(users))
}

// upToDate says whether all pods of a workload are what is wanted now. Those of a Job stay
// what they were when it began, and those on their way out serve until they are gone.
func (p *planner) upToDate(component string, id desired.ID, live Object) bool {
	c := p.components[component]
	return c != nil && c.Workload == id && id.Kind != desired.KindJob && !ReplacesPods(*c, live) && health.RolledOut(live) && !losesPods(live)
}

// losesPods says whether pods of a workload are on their way out, where Kubernetes counts them (since 1.35).
func losesPods(live Object) bool {
	d, ok := live.(*appsv1.Deployment)
	return ok && d.Status.TerminatingReplicas != nil && *d.Status.TerminatingReplicas > 0
}

// healthy says whether all of a component is there and ready as it is wanted.
func (p *planner) healthy(c *desired.Component) bool {
	for _, child := range c.Children {
		if live := p.Seen[child.ID]; live == nil || !p.ours(live) || health.Of(live).Status != health.Healthy {
			return false
		}
	}
	return !ReplacesPods(*c, p.Seen[c.Workload]) && p.lets(c) // who is bound to it is told its new address before that
}

// user is a component with pods that need one of a circle and is not in it.
func (p *planner) user(circle map[string]bool) string {
	var users []string
	for user, needs := range p.needs {
		if !circle[user] && slices.ContainsFunc(needs, func(need string) bool { return circle[need] }) {
			users = append(users, user)
		}
	}
	if len(users) == 0 {
		return ""
	}
	return slices.Min(users)
}

// circle is a component that left the spec with those others that it needs and that need
// it, if only through others. They go together: none of them could be the first.
func (p *planner) circle(component string) map[string]bool {
	circle := map[string]bool{component: true}
	for other := range p.reach(component) {
		if p.components[other] == nil && p.reach(other)[component] {
			circle[other] = true
		}
	}
	return circle
}

// reach are the components that one needs, also through others.
func (p *planner) reach(component string) map[string]bool {
	reached := map[string]bool{}
	for next := []string{component}; len(next) > 0; next = next[1:] {
		for _, need := range p.needs[next[0]] {
			if !reached[need] {
				reached[need] = true
				next = append(next, need)
			}
		}
	}
	return reached
}

// findNeeds says which components the pods of which one need.
func (p *planner) findNeeds() map[string][]string {
	out := map[string][]string{}
	for _, live := range p.Seen {
		if component := live.GetLabels()[appsapi.LabelComponent]; p.runsForUs(live) {
			out[component] = append(out[component], needs(live)...)
		}
	}
	return out
}

// needs are the components that pods of a workload may need, by what they were made with.
func needs(live Object) []string {
	if run, ok := live.(*batchv1.Job); ok && Finished(run) {
		return nil
	}
	return desired.Edges(live)
}

// leaving says what a child that is being deleted waits for, and since when.
func leaving(l leftover) string {
	name := fmt.Sprintf("%s %s/%s", l.id.Kind.Kind, l.live.GetNamespace(), l.live.GetName())
	since := l.live.GetDeletionTimestamp().UTC().Format(time.RFC3339)
	if f := finalizers(l.live); len(f) > 0 {
		return fmt.Sprintf("%s is being deleted since %s and waits for the finalizers %s", name, since, strings.Join(f, ", "))
	}
	return fmt.Sprintf("%s is being deleted since %s and waits for its pods to end", name, since)
}

// finalizers are those that keep a child; the one that makes it wait for its pods does not
// need anybody's help.
func finalizers(live Object) []string {
	return slices.DeleteFunc(slices.Clone(live.GetFinalizers()), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
}
