package cli

import "github.com/holdfast-dev/holdfast/internal/revision"

// PrintChanges prints the changes of a spec as a table.
func PrintChanges(changes []revision.SpecChange, out Terminal) {
	table := Table{Columns: []string{"COMPONENT", "CHANGE"}}
	for _, c := range changes {
		table.Rows = append(table.Rows, []string{OrDash(c.Component), c.Describe()})
	}
	table.Print(out)
}
