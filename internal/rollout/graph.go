package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// InvalidSpec is a spec that cannot work in any cluster.
type InvalidSpec struct{ Message string }

func (e *InvalidSpec) Error() string { return e.Message }

// Validate rejects unknown dependencies, dependency cycles, bindings to components without ports,
// components that would share a child, and components whose pods would be invalid.
func Validate(components []desired.Component) error {
	known := map[string]*desired.Component{}
	children := map[desired.ID]string{}
	for i := range components {
		c := &components[i]
		known[c.Name] = c
		if c.InvalidMessage != "" {
			return &InvalidSpec{componentPrefix(c, components) + c.InvalidMessage}
		}
		for _, child := range c.Children {
			if other, taken := children[child.ID]; taken {
				return &InvalidSpec{fmt.Sprintf("Components %q and %q would both create %s %s; set a different resourceName on one of them",
					other, c.Name, child.Kind.Kind, child.Name)}
			}
			children[child.ID] = c.Name
		}
	}
	for _, c := range components {
		for _, dep := range c.DependsOn {
			if known[dep] == nil {
				return &InvalidSpec{fmt.Sprintf(
					"Component %q depends on %q, which does not exist; correct the name, or add the component", c.Name, dep)}
			}
		}
		for _, target := range c.BoundTo {
			if len(known[target].Endpoints) == 0 {
				return &InvalidSpec{fmt.Sprintf("Component %q is bound to %q, which has no ports; add a port to it, or remove the binding", c.Name, target)}
			}
		}
	}
	if cycle := findCycle(components); cycle != nil {
		return &InvalidSpec{fmt.Sprintf("Components have a dependency cycle: %s; remove one of these dependencies", strings.Join(cycle, " -> "))}
	}
	return nil
}

// componentPrefix returns a prefix that names the component; empty if the application has only one
// component.
func componentPrefix(c *desired.Component, components []desired.Component) string {
	if len(components) < 2 {
		return ""
	}
	return fmt.Sprintf("Component %q: ", c.Name)
}

// findCycle returns the first cycle in spec order. Its first component is repeated at the end.
func findCycle(components []desired.Component) []string {
	deps := map[string][]string{}
	for _, c := range components {
		deps[c.Name] = c.DependsOn
	}
	done := map[string]bool{}
	var walk func(name string, path []string) []string
	walk = func(name string, path []string) []string {
		if i := slices.Index(path, name); i >= 0 {
			return append(slices.Clone(path[i:]), name)
		}
		if done[name] {
			return nil
		}
		for _, dep := range deps[name] {
			if cycle := walk(dep, append(slices.Clone(path), name)); cycle != nil {
				return cycle
			}
		}
		done[name] = true
		return nil
	}
	for _, c := range components {
		if cycle := walk(c.Name, nil); cycle != nil {
			return cycle
		}
	}
	return nil
}

// Waves groups components into waves: components of a wave depend only on earlier waves. The
// components must be valid, see Validate.
func Waves(components []desired.Component) [][]desired.Component {
	var waves [][]desired.Component
	done := map[string]bool{}
	for left := components; len(left) > 0; {
		var wave, later []desired.Component
		for _, c := range left {
			if slices.ContainsFunc(c.DependsOn, func(dep string) bool { return !done[dep] }) {
				later = append(later, c)
				continue
			}
			wave = append(wave, c)
		}
		for _, c := range wave {
			done[c.Name] = true
		}
		waves, left = append(waves, wave), later
	}
	return waves
}
