package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// resolveWaits finds out who holds whom back: the operator says who waits, the dependencies that are
// not satisfied are for whom.
func (v *View) resolveWaits(in Input, index *appIndex) {
	if in.Stack == nil {
		return
	}
	reported := map[string]appsapi.ComponentStatus{}
	for _, s := range in.Stack.Components {
		reported[s.Name] = s
	}
	anyWaits := false
	for i := range v.Components {
		c := &v.Components[i]
		if reported[c.Name].Reason != appsapi.ReasonWaitingForDependency {
			continue
		}
		for _, dep := range c.DependsOn {
			if blocksDependents(in, index, dep, reported[dep]) {
				c.WaitsFor = append(c.WaitsFor, dep)
			}
		}
		c.setWaiting(reported[c.Name].Message, health.Satisfied(index.children[c.Workload]))
		anyWaits = anyWaits || len(c.WaitsFor) > 0
	}
	if anyWaits {
		v.addWaitCauses(in)
	}
}

// blocksDependents says whether others wait for a component. Of one that could not be looked at the
// operator's word counts.
func blocksDependents(in Input, index *appIndex, name string, reported appsapi.ComponentStatus) bool {
	i := slices.IndexFunc(in.Components, func(c desired.Component) bool { return c.Name == name })
	switch {
	case i < 0 || in.Components[i].NonBlocking:
		return false
	case !index.wasRead(in.Components[i].Workload.Kind):
		return reported.Health != string(health.Healthy)
	}
	return !health.Satisfied(index.children[in.Components[i].Workload])
}

// setWaiting says in words that a component waits; said is what the operator says, and runs
// whether what it was before the change still runs.
func (c *Component) setWaiting(reported string, running bool) {
	if c.topError() != nil {
		return // what is broken here is worth more
	}
	// Not every wait is for a component: an earlier run of a job has to end first, too.
	ownMessage, isOwn := strings.CutPrefix(reported, fmt.Sprintf("Component %q: ", c.Name))
	switch {
	case len(c.WaitsFor) > 0 && running:
		c.Health, c.Message = Waiting, "its latest change waits for "+strings.Join(c.WaitsFor, ", ")
	case len(c.WaitsFor) > 0:
		c.Health, c.Message = Waiting, "waits for "+strings.Join(c.WaitsFor, ", ")
	case isOwn && c.Health == health.Progressing:
		c.Health, c.Message = Waiting, ownMessage
	}
}

// addWaitCauses gives everybody who waits a cause that ends with what is at the bottom of it.
func (v *View) addWaitCauses(in Input) {
	blockers := map[string]*blocker{}
	waits := map[string]explain.Cause{}
	for _, c := range v.Components {
		if len(c.WaitsFor) > 0 {
			m := v.followWaits(&c, blockers)
			waits[c.Name] = explain.Cause{
				Code: explain.DependencyWait, Object: v.appRef(in), Path: "status.components", Value: c.Name, Since: m.since,
				Message: m.message, Fix: fmt.Sprintf("See to %s; %s goes on by itself.", m.component, c.Name),
			}
		}
	}
	for i := range v.Components {
		c := &v.Components[i]
		if wait, ok := waits[c.Name]; ok {
			// After what is broken here, before what is only worth knowing.
			at := len(c.Causes)
			if n := slices.IndexFunc(c.Causes, func(x explain.Cause) bool { return x.Severity != explain.Error }); n >= 0 {
				at = n
			}
			c.Causes = slices.Insert(c.Causes, at, wait)
		}
	}
}

// blocker is what is the matter with a component, in words that end at the bottom of it.
type blocker struct {
	// component is the one at the bottom.
	component, message string
	since              time.Time
	// broken says that it does not go on by itself.
	broken bool
}

// blockerOf is what others who wait for a component have to know.
func (v *View) blockerOf(name string, blockers map[string]*blocker) *blocker {
	if m := blockers[name]; m != nil {
		return m
	}
	c := v.Component(name)
	m := &blocker{component: name, message: c.Message, since: v.Since}
	blockers[name] = m // two that wait for each other meet here
	switch top := c.topError(); {
	case top != nil:
		m.message, m.since, m.broken = top.Message, top.Since, true
	case len(c.WaitsFor) > 0:
		*m = *v.followWaits(c, blockers)
	case m.message == "":
		m.message = "it is not ready yet"
	}
	return m
}

// followWaits follows those that a component waits for: to what is broken, and only without that
// to what is on its way.
func (v *View) followWaits(c *Component, blockers map[string]*blocker) *blocker {
	var found *blocker
	for _, dep := range c.WaitsFor {
		if m := v.blockerOf(dep, blockers); found == nil || m.broken && !found.broken {
			below := *m
			below.message = fmt.Sprintf("%s waits for %s: %s", c.Name, dep, m.message)
			found = &below
		}
	}
	return found
}
