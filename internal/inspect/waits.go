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

// resolveWaits determines which components wait for which dependencies: the status tells which components
// wait, and they wait for their dependencies that are not satisfied.
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

// blocksDependents reports whether dependents wait for a component. If its workload could not be read, the
// status reported by the operator counts.
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

// setWaiting marks a component as waiting. reported is the message of the operator, and running tells
// whether its previous revision is running.
func (c *Component) setWaiting(reported string, running bool) {
	if c.topError() != nil {
		return // an error of the component itself is more important
	}
	// A component can also wait for something else, such as the previous run of a job.
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

// addWaitCauses adds a cause to each waiting component, with the chain of dependencies down to the root cause.
func (v *View) addWaitCauses(in Input) {
	blockers := map[string]*blocker{}
	waits := map[string]explain.Cause{}
	for _, c := range v.Components {
		if len(c.WaitsFor) > 0 {
			m := v.followWaits(&c, blockers)
			waits[c.Name] = explain.Cause{
				Code: explain.DependencyWait, Object: appRef(in), Path: "status.components", Value: c.Name, Since: m.since,
				Message: m.message, Fix: fmt.Sprintf("Fix %s; %s then continues automatically.", m.component, c.Name),
			}
		}
	}
	for i := range v.Components {
		c := &v.Components[i]
		if wait, ok := waits[c.Name]; ok {
			// Insert after errors and before notices.
			at := len(c.Causes)
			if n := slices.IndexFunc(c.Causes, func(x explain.Cause) bool { return x.Severity != explain.Error }); n >= 0 {
				at = n
			}
			c.Causes = slices.Insert(c.Causes, at, wait)
		}
	}
}

// blocker describes why a component blocks its dependents, down to the root cause.
type blocker struct {
	// component is the component with the root cause.
	component, message string
	since              time.Time
	// broken is set if the component needs a fix.
	broken bool
}

// blockerOf returns why a component blocks its dependents.
func (v *View) blockerOf(name string, blockers map[string]*blocker) *blocker {
	if m := blockers[name]; m != nil {
		return m
	}
	c := v.Component(name)
	m := &blocker{component: name, message: c.Message, since: v.Since}
	blockers[name] = m // stops at cycles
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

// followWaits follows the dependencies of a component, preferring a broken dependency over one that is
// progressing.
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
