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
// components that would share a child, and components whose pods would be invalid. The error names
// all problems, so that users can fix them together.
func Validate(components []desired.Component) error {
	problems := invalidComponents(components)
	known := map[string]*desired.Component{}
	for i := range components {
		known[components[i].Name] = &components[i]
	}
	for _, c := range components {
		for _, dep := range c.DependsOn {
			if known[dep] == nil {
				problems = append(problems, fmt.Sprintf(
					"Component %q depends on %q, which does not exist; correct the name, or add the component", c.Name, dep))
			}
		}
		for _, target := range c.BoundTo {
			if known[target] != nil && len(known[target].Endpoints) == 0 {
				problems = append(problems, fmt.Sprintf("Component %q is bound to %q, which has no ports; add a port to it, or remove the binding", c.Name, target))
			}
		}
	}
	if cycle := findCycle(components); cycle != nil {
		problems = append(problems, fmt.Sprintf("Components have a dependency cycle: %s; remove one of these dependencies", strings.Join(cycle, " -> ")))
	}
	if len(problems) == 0 {
		return nil
	}
	return &InvalidSpec{strings.Join(problems, ". ")}
}

// invalidComponents returns the problems of single components, and one problem for each two components
// that would share children.
func invalidComponents(components []desired.Component) []string {
	var problems []string
	children := map[desired.ID]string{}
	sharing := map[[2]string]bool{}
	for i := range components {
		c := &components[i]
		if c.InvalidMessage != "" {
			problems = append(problems, componentPrefix(c, components)+c.InvalidMessage)
		}
		for _, child := range c.Children {
			other, taken := children[child.ID]
			if pair := [2]string{other, c.Name}; taken && !sharing[pair] {
				sharing[pair] = true
				problems = append(problems, fmt.Sprintf("Components %q and %q would both create %s %s; set a different resourceName on one of them",
					other, c.Name, child.Kind.Kind, child.Name))
			}
			children[child.ID] = c.Name
		}
	}
	return problems
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
