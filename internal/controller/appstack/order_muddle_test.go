package appstack_test

import (
	"fmt"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// What is the matter with a component that others wait for, and how it ends.
var (
	muddleTroubles = []string{"missing", "never", "fail", "waits itself"}
	muddleEndings  = []string{"fixed", "removed", "not needed any more"}
)

// muddle is a stack in which one component keeps others waiting, and the edit that ends
// that.
type muddle struct {
	name    string
	before  []appsapi.AppStackSpec // one after the other, the last leaves it stuck
	after   appsapi.AppStackSpec
	blocker string // others wait for it
	broken  string // the same, or what that one waits for
	words   string
}

// muddle makes one; i goes through all troubles and endings.
func (r chance) muddle(i int) muddle {
	trouble, ending := muddleTroubles[i/len(muddleEndings)%len(muddleTroubles)], muddleEndings[i%len(muddleEndings)]
	for {
		spec := r.stack(3 + r.IntN(4))
		m := muddle{name: named(i)}
		if m.blocker, m.broken = r.choose(&spec, trouble); m.blocker == "" {
			continue
		}
		m.fill(r, spec, trouble, ending)
		if m.helps() {
			return m
		}
	}
}

// fill makes the specs, of an installation or of an upgrade.
func (m *muddle) fill(r chance, spec appsapi.AppStackSpec, trouble, ending string) {
	how, upgrade := trouble, r.one(2)
	if m.blocker != m.broken {
		how = []string{"missing", "never"}[r.IntN(2)]
	}
	if upgrade {
		m.before = append(m.before, *spec.DeepCopy())
		for i := range spec.Components {
			c := &spec.Components[i]
			if c.Name == m.blocker || slices.Contains(needsOf(c), m.blocker) || r.one(3) {
				setImage(c, r.image(c.Name, 2))
			}
		}
	}
	setImage(componentOf(&spec, m.broken), fmt.Sprintf("shop/%s:3-%s", m.broken, how))
	m.before = append(m.before, *spec.DeepCopy())
	switch ending {
	case "fixed":
		setImage(componentOf(&spec, m.broken), fmt.Sprintf("shop/%s:4", m.broken))
	case "removed":
		spec.Components = slices.DeleteFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == m.blocker })
		disconnect(&spec, m.blocker)
	default:
		disconnect(&spec, m.blocker)
	}
	m.after = spec
	m.words = fmt.Sprintf("%s: %s %s (%s is %s), upgrade %t; then it is %s", describe(&m.before[0]), m.blocker, trouble, m.broken, how, upgrade, ending)
}

// helps says whether somebody who waited does not wait for anything broken after the edit.
func (m *muddle) helps() bool {
	var waits func(c *appsapi.Component) bool
	waits = func(c *appsapi.Component) bool {
		return slices.ContainsFunc(needsOf(c), func(need string) bool {
			dep := componentOf(&m.after, need)
			return isBroken(dep) || waits(dep)
		})
	}
	return slices.ContainsFunc(m.before[0].Components, func(c appsapi.Component) bool {
		now := componentOf(&m.after, c.Name)
		return now != nil && slices.Contains(needsOf(&c), m.blocker) && !waits(now)
	})
}

// choose finds a component that others wait for, and the one to break.
func (r chance) choose(spec *appsapi.AppStackSpec, trouble string) (blocker, broken string) {
	for _, i := range r.Perm(len(spec.Components)) {
		c := &spec.Components[i]
		needed := slices.ContainsFunc(spec.Components, func(o appsapi.Component) bool { return slices.Contains(needsOf(&o), c.Name) })
		switch {
		case !needed, trouble == "fail" && c.Job == nil:
		case trouble != "waits itself":
			return c.Name, c.Name
		case len(needsOf(c)) > 0:
			return c.Name, needsOf(c)[0]
		}
	}
	return "", ""
}

// disconnect removes the edges to a component.
func disconnect(spec *appsapi.AppStackSpec, to string) {
	for i := range spec.Components {
		c := &spec.Components[i]
		c.DependsOn = slices.DeleteFunc(c.DependsOn, func(name string) bool { return name == to })
		c.Bindings = slices.DeleteFunc(c.Bindings, func(b appsapi.Binding) bool { return b.Component == to })
	}
}

func isBroken(c *appsapi.Component) bool { return strings.Contains(imageOf(c), ":3-") }

// pending says whether a component is not what a spec says, and ready whether those that
// wait for it may go on.
func (f *film) pending(c *appsapi.Component) (pending, ready bool) {
	live, ok := f.last(c)
	pending = !ok || live.shape != shapeOf(c)
	return pending, !pending && live.ready
}

func (f *film) isReady(c *appsapi.Component) bool {
	_, ready := f.pending(c)
	return ready
}

// stuck says whether nothing will happen any more: what can be made is made, and what is
// made is ready or broken.
func (f *film) stuck(spec *appsapi.AppStackSpec) bool {
	for i := range spec.Components {
		c := &spec.Components[i]
		pending, ready := f.pending(c)
		if !pending && !ready && !isBroken(c) || pending && f.open(spec, c) {
			return false
		}
	}
	return true
}

// open says whether everything that a component needs is ready.
func (f *film) open(spec *appsapi.AppStackSpec, c *appsapi.Component) bool {
	for _, need := range needsOf(c) {
		if !f.isReady(componentOf(spec, need)) {
			return false
		}
	}
	return true
}

// due are the components that have to move when this spec is asked for, sooner or later.
func (f *film) due(spec *appsapi.AppStackSpec) []string {
	var out []string
	settles := map[string]bool{}
	for range spec.Components { // as often as a chain can be long
		out = nil
		for i := range spec.Components {
			c := &spec.Components[i]
			pending, ready := f.pending(c)
			if !pending {
				settles[c.Name] = ready
				continue
			}
			if !slices.ContainsFunc(needsOf(c), func(need string) bool { return !settles[need] }) {
				settles[c.Name] = !isBroken(c)
				out = append(out, c.Name)
			}
		}
	}
	return out
}
