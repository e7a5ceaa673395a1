package appstack_test

import (
	"fmt"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The failures of a component with dependents, and the edits that resolve them.
var (
	blockingFailures = []string{"missing", "never", "fail", "waits itself"}
	blockingFixes    = []string{"fixed", "removed", "not needed any more"}
)

// blockedStack is a stack with a component that blocks others, and the edit that unblocks them.
type blockedStack struct {
	name        string
	before      []appsapi.AppStackSpec // applied one after the other; the last one blocks the stack
	after       appsapi.AppStackSpec
	blocker     string // the component that others wait for
	broken      string // the same, or its dependency
	description string
}

// randomBlockedStack returns a random stack; i iterates over all failures and fixes.
func (r rng) randomBlockedStack(i int) blockedStack {
	failure, fix := blockingFailures[i/len(blockingFixes)%len(blockingFailures)], blockingFixes[i%len(blockingFixes)]
	for {
		spec := r.randomStack(3 + r.IntN(4))
		m := blockedStack{name: stackName(i)}
		if m.blocker, m.broken = r.chooseBlocker(&spec, failure); m.blocker == "" {
			continue
		}
		m.buildSpecs(r, spec, failure, fix)
		if m.unblocksDependent() {
			return m
		}
	}
}

// buildSpecs creates the specs, for an installation or for an upgrade.
func (m *blockedStack) buildSpecs(r rng, spec appsapi.AppStackSpec, failure, fix string) {
	tag, upgrade := failure, r.oneIn(2)
	if m.blocker != m.broken {
		tag = []string{"missing", "never"}[r.IntN(2)]
	}
	if upgrade {
		m.before = append(m.before, *spec.DeepCopy())
		for i := range spec.Components {
			c := &spec.Components[i]
			if c.Name == m.blocker || slices.Contains(dependenciesOf(c), m.blocker) || r.oneIn(3) {
				setImage(c, r.randomImage(c.Name, 2))
			}
		}
	}
	setImage(componentOf(&spec, m.broken), fmt.Sprintf("shop/%s:3-%s", m.broken, tag))
	m.before = append(m.before, *spec.DeepCopy())
	switch fix {
	case "fixed":
		setImage(componentOf(&spec, m.broken), fmt.Sprintf("shop/%s:4", m.broken))
	case "removed":
		spec.Components = slices.DeleteFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == m.blocker })
		removeDependenciesOn(&spec, m.blocker)
	default:
		removeDependenciesOn(&spec, m.blocker)
	}
	m.after = spec
	m.description = fmt.Sprintf("%s: %s %s (%s is %s), upgrade %t; fix: %s", describeSpec(&m.before[0]), m.blocker, failure, m.broken, tag, upgrade, fix)
}

// unblocksDependent reports whether the edit unblocks a dependent completely.
func (m *blockedStack) unblocksDependent() bool {
	var isBlocked func(c *appsapi.Component) bool
	isBlocked = func(c *appsapi.Component) bool {
		return slices.ContainsFunc(dependenciesOf(c), func(dependency string) bool {
			dep := componentOf(&m.after, dependency)
			return isBroken(dep) || isBlocked(dep)
		})
	}
	return slices.ContainsFunc(m.before[0].Components, func(c appsapi.Component) bool {
		now := componentOf(&m.after, c.Name)
		return now != nil && slices.Contains(dependenciesOf(&c), m.blocker) && !isBlocked(now)
	})
}

// chooseBlocker selects a component with dependents, and the one to break.
func (r rng) chooseBlocker(spec *appsapi.AppStackSpec, failure string) (blocker, broken string) {
	for _, i := range r.Perm(len(spec.Components)) {
		c := &spec.Components[i]
		needed := slices.ContainsFunc(spec.Components, func(o appsapi.Component) bool { return slices.Contains(dependenciesOf(&o), c.Name) })
		switch {
		case !needed, failure == "fail" && c.Job == nil:
		case failure != "waits itself":
			return c.Name, c.Name
		case len(dependenciesOf(c)) > 0:
			return c.Name, dependenciesOf(c)[0]
		}
	}
	return "", ""
}

// removeDependenciesOn removes all dependencies on a component.
func removeDependenciesOn(spec *appsapi.AppStackSpec, to string) {
	for i := range spec.Components {
		c := &spec.Components[i]
		c.DependsOn = slices.DeleteFunc(c.DependsOn, func(name string) bool { return name == to })
		c.Bindings = slices.DeleteFunc(c.Bindings, func(b appsapi.Binding) bool { return b.Component == to })
	}
}

func isBroken(c *appsapi.Component) bool { return strings.Contains(imageOf(c), ":3-") }

// pending reports whether a component differs from the spec, and ready whether its dependents can continue.
func (f *timeline) pending(c *appsapi.Component) (pending, ready bool) {
	live, ok := f.lastState(c)
	pending = !ok || live.podSummary != desiredPodSummary(c)
	return pending, !pending && live.ready
}

func (f *timeline) isReady(c *appsapi.Component) bool {
	_, ready := f.pending(c)
	return ready
}

// isSettled reports whether the stack is stable: everything that can be created exists and is ready or broken.
func (f *timeline) isSettled(spec *appsapi.AppStackSpec) bool {
	for i := range spec.Components {
		c := &spec.Components[i]
		pending, ready := f.pending(c)
		if !pending && !ready && !isBroken(c) || pending && f.dependenciesReady(spec, c) {
			return false
		}
	}
	return true
}

// dependenciesReady reports whether all dependencies of a component are ready.
func (f *timeline) dependenciesReady(spec *appsapi.AppStackSpec, c *appsapi.Component) bool {
	for _, dependency := range dependenciesOf(c) {
		if !f.isReady(componentOf(spec, dependency)) {
			return false
		}
	}
	return true
}

// expectedRollouts returns the components that this spec must create or roll out.
func (f *timeline) expectedRollouts(spec *appsapi.AppStackSpec) []string {
	var out []string
	becomesReady := map[string]bool{}
	for range spec.Components { // the maximum length of a chain
		out = nil
		for i := range spec.Components {
			c := &spec.Components[i]
			pending, ready := f.pending(c)
			if !pending {
				becomesReady[c.Name] = ready
				continue
			}
			if !slices.ContainsFunc(dependenciesOf(c), func(dependency string) bool { return !becomesReady[dependency] }) {
				becomesReady[c.Name] = !isBroken(c)
				out = append(out, c.Name)
			}
		}
	}
	return out
}
