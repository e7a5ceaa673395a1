package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Print explains why an application is not ready. If all is set, it includes informational causes.
func Print(out cli.Terminal, l collect.Result, now time.Time, all bool) {
	printer{Terminal: out, result: l, now: now, all: all}.print()
}

// printer prints an explanation.
type printer struct {
	cli.Terminal
	result collect.Result
	now    time.Time
	all    bool
}

const (
	branchEdge, lastEdge     = "├─ ", "└─ "
	branchIndent, lastIndent = "│  ", "   "
)

func (p printer) print() {
	p.result.PrintTitle(p.Terminal, p.now)
	blocks := p.applicationCauses()
	shown := map[string]bool{}
	for _, c := range p.rootComponents() {
		blocks = append(blocks, p.componentBlock(c, shown))
	}
	if len(blocks) == 0 && !p.result.Ready {
		blocks = append(blocks, block{lines: []string{p.result.Message}})
	}
	p.printBlocks(blocks, "")
	p.printRecentChanges()
	p.result.PrintUnread(p.Terminal)
}

// recentChangeWindow is the maximum age of changes that are printed.
const recentChangeWindow = time.Hour

// printRecentChanges prints recent changes with their field managers: they can be the cause.
func (p printer) printRecentChanges() {
	var recent []string
	for _, c := range p.result.Changes {
		if p.now.Sub(c.Time) < recentChangeWindow {
			recent = append(recent, fmt.Sprintf("%s %s by %s %s ago", c.Object.Kind, c.Object.Name, c.Manager, collect.Age(c.Time, p.now)))
		}
	}
	if len(recent) > 0 && !p.result.Ready {
		p.printWrapped("", "  ", "recent changes: "+strings.Join(recent, ", "))
	}
}

// block is a node of the printed tree.
type block struct {
	lines    []string // the first line is the message
	details  [][2]string
	children []block
}

// printBlocks prints blocks as a tree. Long lines are wrapped with the indentation of their block.
func (p printer) printBlocks(blocks []block, indent string) {
	for i, b := range blocks {
		prefix, continuation := branchEdge, branchIndent
		if i == len(blocks)-1 {
			prefix, continuation = lastEdge, lastIndent
		}
		p.printWrapped(indent+prefix, indent+continuation, strings.Join(b.lines, "\n"))
		for _, d := range b.details {
			label := fmt.Sprintf("%-7s", d[0]+":")
			p.printWrapped(indent+continuation+p.Colorize(cli.StyleDim, label), indent+continuation+strings.Repeat(" ", len(label)), d[1])
		}
		p.printBlocks(b.children, indent+continuation)
	}
}

// printWrapped wraps a text. The prefix of the first line is first, that of the other lines next.
func (p printer) printWrapped(first, next, text string) {
	width := 0
	if p.Width > 0 {
		width = max(p.Width-len([]rune(next)), 24)
	}
	for i, line := range cli.Wrap(text, width) {
		if i > 0 {
			first = next
		}
		fmt.Fprintln(p, first+line)
	}
}

// applicationCauses returns the causes that belong to no component.
func (p printer) applicationCauses() []block {
	var blocks []block
	for _, c := range p.result.Causes {
		inComponent := slices.ContainsFunc(p.result.Components, func(x inspect.Component) bool {
			return slices.ContainsFunc(x.Causes, func(y explain.Cause) bool {
				return y.Code == c.Code && y.Object == c.Object && y.Message == c.Message
			})
		})
		if !inComponent {
			blocks = append(blocks, p.causeBlock("", c))
		}
	}
	return blocks
}

// rootComponents returns the unhealthy components that no other component waits for. The other
// unhealthy components are printed below them.
func (p printer) rootComponents() []*inspect.Component {
	awaited := map[string]bool{}
	for _, c := range p.result.Components {
		for _, dep := range c.WaitsFor {
			awaited[dep] = true
		}
	}
	var roots []*inspect.Component
	for i := range p.result.Components {
		c := &p.result.Components[i]
		if p.result.Deleting && len(c.Causes) == 0 && len(c.Tree) == 0 {
			continue // deleted as requested
		}
		if p.isSuspended() && !slices.ContainsFunc(c.Causes, isError) {
			continue // not the reason
		}
		if !awaited[c.Name] && (c.Health != health.Healthy || c.Message != "" || p.all && len(c.Causes) > 0) {
			roots = append(roots, c)
		}
	}
	return roots
}

// componentBlock returns a component with the components that it waits for. A component that was
// printed before is only named.
func (p printer) componentBlock(c *inspect.Component, shown map[string]bool) block {
	if shown[c.Name] {
		return block{lines: []string{fmt.Sprintf("%s (see above)", c.Name)}}
	}
	shown[c.Name] = true
	name := p.Colorize(collect.HealthColor(c.Health), c.Name)
	if len(c.WaitsFor) > 0 {
		reason := "waits for " + strings.Join(c.WaitsFor, ", ")
		if c.Health == inspect.Waiting {
			reason = c.Message
		}
		b := block{lines: []string{name + " " + reason}}
		for _, x := range c.Causes {
			if x.Code != explain.DependencyWait && (x.Severity == explain.Error || p.all) {
				b.children = append(b.children, p.causeBlock("", x))
			}
		}
		for _, dep := range c.WaitsFor {
			b.children = append(b.children, p.componentBlock(p.result.Component(dep), shown))
		}
		return b
	}
	causes := slices.DeleteFunc(slices.Clone(c.Causes), func(x explain.Cause) bool { return x.Severity != explain.Error && !p.all })
	title := fmt.Sprintf("%s %s/%s", name, c.Workload.Kind.Kind, c.Workload.Name)
	if pods := collect.ReadyPods(*c); pods != "-" {
		title += " " + pods
	}
	switch len(causes) {
	case 0:
		text := collect.TrimSubject(c.Message, c.Workload.Kind.Kind, p.result.Namespace, c.Workload.Name)
		if text == "" {
			text = strings.ToLower(string(c.Health))
		}
		return block{lines: []string{title + ": " + text}, details: append(p.noteDetails(c), p.resumeDetails(c)...)}
	case 1:
		b := p.causeBlock(title+": ", causes[0])
		b.details = append(b.details, p.resumeDetails(c)...)
		return b
	}
	b := block{lines: []string{title}}
	for _, x := range causes {
		b.children = append(b.children, p.causeBlock("", x))
	}
	return b
}

func isError(c explain.Cause) bool { return c.Severity == explain.Error }

// isSuspended reports whether the whole application is suspended, which is one of its causes.
func (p printer) isSuspended() bool {
	return slices.ContainsFunc(p.result.Causes, func(c explain.Cause) bool { return c.Code == explain.Suspended && c.Object.Kind == p.result.Kind })
}

// resumeDetails returns the next step for a component that is suspended without the application.
func (p printer) resumeDetails(c *inspect.Component) [][2]string {
	if !c.Suspended || p.isSuspended() {
		return nil
	}
	return [][2]string{{"fix", fmt.Sprintf("Resume it: kubectl holdfast resume %s/%s --component %s -n %s",
		strings.ToLower(p.result.Kind), p.result.Name, c.Name, p.result.Namespace)}}
}

// noteDetails returns the informational causes of a component that has no other causes.
func (p printer) noteDetails(c *inspect.Component) [][2]string {
	var out [][2]string
	for _, x := range c.Causes {
		out = append(out, [2]string{"note", x.Message})
	}
	return out
}

// causeBlock returns a cause with its object, evidence and fix.
func (p printer) causeBlock(title string, c explain.Cause) block {
	where := fmt.Sprintf("%s/%s", c.Object.Kind, c.Object.Name)
	if c.Path != "" {
		where += " " + c.Path
	}
	if c.Value != "" && len(c.Value) < 80 && !strings.Contains(c.Message, c.Value) {
		where += "=" + c.Value
	}
	code, evidence := fmt.Sprintf("%s, since %s", c.Code, collect.Age(c.Since, p.now)), c.Evidence
	if c.AffectedPods > 0 && len(evidence) > 0 { // the first evidence is the number of pods: 1 of 2 pods
		code, evidence = code+", affects "+evidence[0], evidence[1:]
	}
	b := block{lines: []string{title + c.Message}, details: [][2]string{{"code", code}, {"where", where}}}
	for _, e := range evidence {
		b.details = append(b.details, [2]string{"seen", e})
	}
	if c.Fix != "" {
		b.details = append(b.details, [2]string{"fix", c.Fix})
	}
	if doc := c.Code.DocURL(); doc != "" {
		b.details = append(b.details, [2]string{"more", doc})
	}
	return b
}
