package find

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// usageList is that for programs.
type usageList struct {
	cli.Header `json:",inline"`
	Items      []Usage `json:"items"`
}

// resourceName is that of the application, as kubectl takes it. Of a pod whose workload is gone the
// kind is not known.
func (u Usage) resourceName() string {
	if u.Application.Kind == "" {
		return u.Application.Name
	}
	return strings.ToLower(u.Application.Kind) + "." + appsapi.GroupVersion.Group + "/" + u.Application.Name
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
	t := cli.Table{Columns: []string{"APPLICATION", "COMPONENT", "OBJECT", "USES", "WHERE"}, NoHeaders: o.noHeaders}
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

// tableWidth is that of the whole table.
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

// printBlocks is for a terminal on which the table would be a muddle of broken lines: paths are
// long, and people copy them.
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
