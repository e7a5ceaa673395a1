package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// Print says why an application is not ready; with all, also what is only worth knowing.
func Print(out cli.Terminal, l look.Look, now time.Time, all bool) {
	printer{Terminal: out, look: l, now: now, all: all}.print()
}

// printer prints an explanation for people.
type printer struct {
	cli.Terminal
	look look.Look
	now  time.Time
	all  bool
}

const (
	branch, last = "├─ ", "└─ "
	trunk, blank = "│  ", "   "
)

func (p printer) print() {
	p.look.PrintTitle(p.Terminal, p.now)
	blocks := p.whole()
	shown := map[string]bool{}
	for _, c := range p.tops() {
		blocks = append(blocks, p.component(c, shown))
	}
	if len(blocks) == 0 && !p.look.Ready {
		blocks = append(blocks, block{lines: []string{p.look.Message}})
	}
	p.draw(blocks, "")
	p.changes()
	p.look.PrintMissed(p.Terminal)
}

// lately is how old a change may be that may be why something does not work.
const lately = time.Hour

// changes says who changed what, before or while something stopped to work.
func (p printer) changes() {
	var said []string
	for _, c := range p.look.Changes {
		if p.now.Sub(c.Time) < lately {
			said = append(said, fmt.Sprintf("%s %s by %s %s ago", c.Object.Kind, c.Object.Name, c.By, look.Age(c.Time, p.now)))
		}
	}
	if len(said) > 0 && !p.look.Ready {
		p.lines("", "  ", "changed lately: "+strings.Join(said, ", "))
	}
}

// block is a part of the tree: a sentence, what is known about it, and what is below it.
type block struct {
	lines   []string // the first one is the sentence
	details [][2]string
	below   []block
}

// draw prints blocks below each other. Long lines go on under themselves.
func (p printer) draw(blocks []block, indent string) {
	for i, b := range blocks {
		head, tail := branch, trunk
		if i == len(blocks)-1 {
			head, tail = last, blank
		}
		p.lines(indent+head, indent+tail, strings.Join(b.lines, "\n"))
		for _, d := range b.details {
			label := fmt.Sprintf("%-7s", d[0]+":")
			p.lines(indent+tail+p.Paint(cli.Dim, label), indent+tail+strings.Repeat(" ", len(label)), d[1])
		}
		p.draw(b.below, indent+tail)
	}
}

// lines prints a text with one beginning for its first line and another for the others.
func (p printer) lines(first, next, text string) {
	room := 0
	if p.Width > 0 {
		room = max(p.Width-len([]rune(next)), 24)
	}
	for i, line := range cli.Wrap(text, room) {
		if i > 0 {
			first = next
		}
		fmt.Fprintln(p, first+line)
	}
}

// whole is what is said about the application as a whole.
func (p printer) whole() []block {
	var blocks []block
	for _, c := range p.look.Causes {
		of := slices.ContainsFunc(p.look.Components, func(x view.Component) bool {
			return slices.ContainsFunc(x.Causes, func(y explain.Cause) bool {
				return y.Code == c.Code && y.Object == c.Object && y.Sentence == c.Sentence
			})
		})
		if !of {
			blocks = append(blocks, p.cause("", c))
		}
	}
	return blocks
}

// tops are the components that are not well and that nobody else waits for: everything else
// is said below them.
func (p printer) tops() []*view.Component {
	awaited := map[string]bool{}
	for _, c := range p.look.Components {
		for _, dep := range c.WaitsFor {
			awaited[dep] = true
		}
	}
	var tops []*view.Component
	for i := range p.look.Components {
		c := &p.look.Components[i]
		if p.look.Deleting && len(c.Causes) == 0 && len(c.Tree) == 0 {
			continue // gone, as it should be
		}
		if !awaited[c.Name] && (c.Health != health.Healthy || p.all && len(c.Causes) > 0) {
			tops = append(tops, c)
		}
	}
	return tops
}

// component is a component and what it waits for. One that was said already is only named.
func (p printer) component(c *view.Component, shown map[string]bool) block {
	if shown[c.Name] {
		return block{lines: []string{fmt.Sprintf("%s (see above)", c.Name)}}
	}
	shown[c.Name] = true
	name := p.Paint(look.Colour(c.Health), c.Name)
	if len(c.WaitsFor) > 0 {
		words := "waits for " + strings.Join(c.WaitsFor, ", ")
		if c.Health == view.Waiting {
			words = c.Message
		}
		b := block{lines: []string{name + " " + words}}
		for _, x := range c.Causes {
			if x.Code != explain.DependencyWait && (x.Severity == explain.Error || p.all) {
				b.below = append(b.below, p.cause("", x))
			}
		}
		for _, dep := range c.WaitsFor {
			b.below = append(b.below, p.component(p.look.Component(dep), shown))
		}
		return b
	}
	causes := slices.DeleteFunc(slices.Clone(c.Causes), func(x explain.Cause) bool { return x.Severity != explain.Error && !p.all })
	title := fmt.Sprintf("%s %s/%s", name, c.Workload.Kind.Kind, c.Workload.Name)
	if pods := look.Pods(*c); pods != "-" {
		title += " " + pods
	}
	switch len(causes) {
	case 0:
		text := look.Predicate(c.Message, c.Workload.Kind.Kind, p.look.Namespace, c.Workload.Name)
		if text == "" {
			text = strings.ToLower(string(c.Health))
		}
		return block{lines: []string{title + ": " + text}, details: p.notices(c)}
	case 1:
		return p.cause(title+": ", causes[0])
	}
	b := block{lines: []string{title}}
	for _, x := range causes {
		b.below = append(b.below, p.cause("", x))
	}
	return b
}

// notices are what is worth knowing while nothing explains more.
func (p printer) notices(c *view.Component) [][2]string {
	var out [][2]string
	for _, x := range c.Causes {
		out = append(out, [2]string{"note", x.Sentence})
	}
	return out
}

// cause is one cause with where it is seen and what to do.
func (p printer) cause(title string, c explain.Cause) block {
	where := fmt.Sprintf("%s/%s", c.Object.Kind, c.Object.Name)
	if c.Path != "" {
		where += " " + c.Path
	}
	if c.Value != "" && len(c.Value) < 80 && !strings.Contains(c.Sentence, c.Value) {
		where += "=" + c.Value
	}
	b := block{lines: []string{title + c.Sentence}, details: [][2]string{{"code", fmt.Sprintf("%s, since %s", c.Code, look.Age(c.Since, p.now))}, {"where", where}}}
	for _, e := range c.Evidence {
		b.details = append(b.details, [2]string{"seen", e})
	}
	if c.Fix != "" {
		b.details = append(b.details, [2]string{"fix", c.Fix})
	}
	if doc := c.Code.Doc(); doc != "" {
		b.details = append(b.details, [2]string{"more", doc})
	}
	return b
}
