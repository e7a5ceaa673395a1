package revisions

import "github.com/holdfast-dev/holdfast/internal/cli"

// Print lists changes for people.
func Print(changes []Change, out cli.Terminal) {
	table := cli.Table{Columns: []string{"COMPONENT", "CHANGE"}}
	for _, c := range changes {
		table.Rows = append(table.Rows, []string{cli.OrNone(c.Component), c.Words()})
	}
	table.Print(out)
}
