package cli

import "github.com/holdfast-dev/holdfast/internal/revisions"

// PrintChanges lists changes of a spec for people.
func PrintChanges(changes []revisions.SpecChange, out Terminal) {
	table := Table{Columns: []string{"COMPONENT", "CHANGE"}}
	for _, c := range changes {
		table.Rows = append(table.Rows, []string{OrDash(c.Component), c.Describe()})
	}
	table.Print(out)
}
