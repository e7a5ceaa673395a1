package tree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// row is a line of the tree.
type row struct {
	// prefix is printed before the name, continuation before the lines below it.
	prefix, continuation string
	name                 string
	health               health.Status
	message              string
}

func componentRows(l collect.Result) []row {
	var rows []row
	for i, c := range l.Components {
		prefix, continuation := branchPrefixes(i == len(l.Components)-1)
		r := row{prefix: prefix, continuation: continuation, name: fmt.Sprintf("%s (%s)", c.Name, c.Type), health: c.Health, message: c.Message}
		childRows := nodeRows(c.Tree, continuation)
		if len(childRows) > 0 {
			r.continuation += "│  "
		}
		rows = append(append(rows, r), childRows...)
	}
	return rows
}

func nodeRows(nodes []inspect.Node, indent string) []row {
	var rows []row
	for i, n := range nodes {
		prefix, continuation := branchPrefixes(i == len(nodes)-1)
		o := n.Object
		r := row{prefix: indent + prefix, continuation: indent + continuation, name: o.Kind + "/" + o.Name, health: n.Health, message: collect.TrimSubject(n.Message, o.Kind, o.Namespace, o.Name)}
		childRows := nodeRows(n.Children, indent+continuation)
		if len(childRows) > 0 {
			r.continuation += "│  "
		}
		rows = append(append(rows, r), childRows...)
	}
	return rows
}

func branchPrefixes(last bool) (prefix, continuation string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

// printRows prints the tree in columns. If the terminal is too narrow, it prints each message below its
// object.
func printRows(out cli.Terminal, l collect.Result) {
	rows := componentRows(l)
	nameWidth, stateWidth, messageWidth := 0, 0, 0
	for _, r := range rows {
		nameWidth = max(nameWidth, utf8.RuneCountInString(r.prefix+r.name))
		stateWidth = max(stateWidth, len(r.health))
		messageWidth = max(messageWidth, utf8.RuneCountInString(r.message))
	}
	fits := out.Width == 0 || nameWidth+2+stateWidth+2+messageWidth <= out.Width
	for _, r := range rows {
		pad := ""
		if fits {
			pad = strings.Repeat(" ", nameWidth-utf8.RuneCountInString(r.prefix+r.name))
		}
		line := r.prefix + r.name + pad + "  " + out.Colorize(collect.HealthColor(r.health), string(r.health))
		if !fits && utf8.RuneCountInString(r.prefix+r.name)+2+len(r.health) > out.Width {
			line = r.prefix + r.name + "\n" + r.continuation + out.Colorize(collect.HealthColor(r.health), string(r.health))
		}
		if fits && r.message != "" {
			line += strings.Repeat(" ", stateWidth-len(r.health)+2) + r.message
		}
		fmt.Fprintln(out, line)
		if !fits && r.message != "" {
			for _, text := range cli.Wrap(r.message, max(out.Width-utf8.RuneCountInString(r.continuation), 24)) {
				fmt.Fprintln(out, r.continuation+text)
			}
		}
	}
}
