package view

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

// wait finds out who holds whom back: the operator says who waits, the dependencies that are
// not satisfied are for whom.
func (v *View) wait(in Input, index *index) {
	if in.Stack == nil {
		return
	}
	said := map[string]appsapi.ComponentStatus{}
	for _, s := range in.Stack.Components {
		said[s.Name] = s
	}
	waits := false
	for i := range v.Components {
		c := &v.Components[i]
		if said[c.Name].Reason != appsapi.ReasonWaitingForDependency {
			continue
		}
		for _, dep := range c.DependsOn {
			if holdsBack(in, index, dep, said[dep]) {
				c.WaitsFor = append(c.WaitsFor, dep)
			}
		}
		c.waits(said[c.Name].Message, health.Satisfied(index.children[c.Workload]))
		waits = waits || len(c.WaitsFor) > 0
	}
	if waits {
		v.explainWaits(in)
	}
}

// holdsBack says whether others wait for a component. Of one that could not be looked at the
// operator's word counts.
func holdsBack(in Input, index *index, name string, said appsapi.ComponentStatus) bool {
	i := slices.IndexFunc(in.Components, func(c desired.Component) bool { return c.Name == name })
	switch {
	case i < 0 || in.Components[i].GatesNobody:
		return false
	case !index.read(in.Components[i].Workload.Kind):
		return said.Health != string(health.Healthy)
	}
	return !health.Satisfied(index.children[in.Components[i].Workload])
}

// waits says in words that a component waits; said is what the operator says, and runs
// whether what it was before the change still runs.
func (c *Component) waits(said string, runs bool) {
	if c.cause() != nil {
		return // what is broken here is worth more
	}
	// Not every wait is for a component: an earlier run of a job has to end first, too.
	own, isOwn := strings.CutPrefix(said, fmt.Sprintf("Component %q: ", c.Name))
	switch {
	case len(c.WaitsFor) > 0 && runs:
		c.Health, c.Message = Waiting, "its latest change waits for "+strings.Join(c.WaitsFor, ", ")
	case len(c.WaitsFor) > 0:
		c.Health, c.Message = Waiting, "waits for "+strings.Join(c.WaitsFor, ", ")
	case isOwn && c.Health == health.Progressing:
		c.Health, c.Message = Waiting, own
	}
}

// explainWaits gives everybody who waits a cause that ends with what is at the bottom of it.
func (v *View) explainWaits(in Input) {
	known := map[string]*matter{}
	waits := map[string]explain.Cause{}
	for _, c := range v.Components {
		if len(c.WaitsFor) > 0 {
			m := v.waitOf(&c, known)
			waits[c.Name] = explain.Cause{
				Code: explain.DependencyWait, Object: v.object(in), Path: "status.components", Value: c.Name, Since: m.since,
				Sentence: m.why, Fix: fmt.Sprintf("See to %s; %s goes on by itself.", m.component, c.Name),
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

// matter is what is the matter with a component, in words that end at the bottom of it.
type matter struct {
	// component is the one at the bottom.
	component, why string
	since          time.Time
	// broken says that it does not go on by itself.
	broken bool
}

// matterOf is what others who wait for a component have to know.
func (v *View) matterOf(name string, known map[string]*matter) *matter {
	if m := known[name]; m != nil {
		return m
	}
	c := v.Component(name)
	m := &matter{component: name, why: c.Message, since: v.Since}
	known[name] = m // two that wait for each other meet here
	switch top := c.cause(); {
	case top != nil:
		m.why, m.since, m.broken = top.Sentence, top.Since, true
	case len(c.WaitsFor) > 0:
		*m = *v.waitOf(c, known)
	case m.why == "":
		m.why = "it is not ready yet"
	}
	return m
}

// waitOf follows those that a component waits for: to what is broken, and only without that
// to what is on its way.
func (v *View) waitOf(c *Component, known map[string]*matter) *matter {
	var found *matter
	for _, dep := range c.WaitsFor {
		if m := v.matterOf(dep, known); found == nil || m.broken && !found.broken {
			below := *m
			below.why = fmt.Sprintf("%s waits for %s: %s", c.Name, dep, m.why)
			found = &below
		}
	}
	return found
}
