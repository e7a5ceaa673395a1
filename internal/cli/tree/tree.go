package tree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// row is a line of the tree.
type row struct {
	// head is what stands before and in the line, tail what goes on below it.
	head, tail string
	name       string
	health     health.Status
	message    string
}

func rowsOf(l look.Look) []row {
	var rows []row
	for i, c := range l.Components {
		head, tail := edges(i == len(l.Components)-1)
		r := row{head: head, tail: tail, name: fmt.Sprintf("%s (%s)", c.Name, c.Type), health: c.Health, message: c.Message}
		below := rowsBelow(c.Tree, tail)
		if len(below) > 0 {
			r.tail += "│  "
		}
		rows = append(append(rows, r), below...)
	}
	return rows
}

func rowsBelow(nodes []view.Node, indent string) []row {
	var rows []row
	for i, n := range nodes {
		head, tail := edges(i == len(nodes)-1)
		o := n.Object
		r := row{head: indent + head, tail: indent + tail, name: o.Kind + "/" + o.Name, health: n.Health, message: look.Predicate(n.Message, o.Kind, o.Namespace, o.Name)}
		below := rowsBelow(n.Children, indent+tail)
		if len(below) > 0 {
			r.tail += "│  "
		}
		rows = append(append(rows, r), below...)
	}
	return rows
}

func edges(last bool) (head, tail string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

// draw prints the tree: in columns where they fit, and otherwise each message below its
// object, so that nothing breaks the branches.
func draw(out cli.Terminal, l look.Look) {
	rows := rowsOf(l)
	name, state, message := 0, 0, 0
	for _, r := range rows {
		name = max(name, utf8.RuneCountInString(r.head+r.name))
		state = max(state, len(r.health))
		message = max(message, utf8.RuneCountInString(r.message))
	}
	fits := out.Width == 0 || name+2+state+2+message <= out.Width
	for _, r := range rows {
		pad := ""
		if fits {
			pad = strings.Repeat(" ", name-utf8.RuneCountInString(r.head+r.name))
		}
		line := r.head + r.name + pad + "  " + out.Paint(look.Colour(r.health), string(r.health))
		if !fits && utf8.RuneCountInString(r.head+r.name)+2+len(r.health) > out.Width {
			line = r.head + r.name + "\n" + r.tail + out.Paint(look.Colour(r.health), string(r.health))
		}
		if fits && r.message != "" {
			line += strings.Repeat(" ", state-len(r.health)+2) + r.message
		}
		fmt.Fprintln(out, line)
		if !fits && r.message != "" {
			for _, text := range cli.Wrap(r.message, max(out.Width-utf8.RuneCountInString(r.tail), 24)) {
				fmt.Fprintln(out, r.tail+text)
			}
		}
	}
}
