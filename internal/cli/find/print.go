package find

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// usageList is the machine-readable output.
type usageList struct {
	cli.Header `json:",inline"`
	Items      []Usage `json:"items"`
}

// resourceName returns the application as KIND.GROUP/NAME. Without the kind, which is unknown for pods of
// deleted workloads, it returns the name.
func (u Usage) resourceName() string {
	if u.Application.Kind == "" {
		return u.Application.Name
	}
	return strings.ToLower(appkind.ParseName(u.Application.Kind).String()) + "/" + u.Application.Name
}

func (o options) print(out cli.Terminal, uses []Usage) error {
	switch {
	case o.output.IsMachineReadable():
		if uses == nil {
			uses = []Usage{}
		}
		return o.output.Print(out, usageList{cli.NewHeader("UseList"), uses})
	case o.output.Format == cli.FormatName:
		var names []string
		for _, u := range uses {
			names = append(names, u.resourceName())
		}
		for _, name := range slices.Compact(names) { // sorted by application
			fmt.Fprintln(out, name)
		}
		return nil
	}
	t := cli.Table{Columns: []string{"APPLICATION", "COMPONENT", "OBJECT", "USES", "FIELD"}, NoHeaders: o.noHeaders}
	if o.allNamespaces {
		t.Columns = append([]string{"NAMESPACE"}, t.Columns...)
	}
	for _, u := range uses {
		for _, f := range u.Matches {
			app := strings.TrimSpace(u.Application.Kind + " " + u.Application.Name)
			row := []string{app, cli.OrDash(u.Application.Component), u.Object.Kind + " " + u.Object.Name, f.Reference, f.Path}
			if o.allNamespaces {
				row = append([]string{u.Namespace}, row...)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if out.Width > 0 && tableWidth(t) > out.Width {
		printBlocks(out, uses, o.allNamespaces)
		return nil
	}
	t.Print(out)
	return nil
}

// tableWidth returns the width of the table.
func tableWidth(t cli.Table) int {
	total := 0
	for i := range t.Columns {
		widest := 0
		for _, row := range append([][]string{t.Columns}, t.Rows...) {
			widest = max(widest, utf8.RuneCountInString(row[i]))
		}
		total += widest + 2
	}
	return total - 2
}

// printBlocks prints one block per object. It is for narrow terminals, where a table would wrap the long
// paths, which users copy.
func printBlocks(out cli.Terminal, uses []Usage, showNamespaces bool) {
	for _, u := range uses {
		app := u.Application.Name
		if showNamespaces {
			app = u.Namespace + "/" + app
		}
		fmt.Fprintln(out, out.Colorize(cli.StyleBold, strings.TrimSpace(u.Application.Kind+" "+app))+", component "+cli.OrDash(u.Application.Component))
		for _, f := range u.Matches {
			fmt.Fprintf(out, "  %s %s uses %s\n    %s\n", u.Object.Kind, u.Object.Name, f.Reference, f.Path)
		}
	}
}
