package find

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// answer is that for programs.
type answer struct {
	cli.Header `json:",inline"`
	Items      []Use `json:"items"`
}

// name is that of the application, as kubectl takes it. Of a pod whose workload is gone the
// kind is not known.
func (u Use) name() string {
	if u.Application.Kind == "" {
		return u.Application.Name
	}
	return strings.ToLower(u.Application.Kind) + "." + appsapi.GroupVersion.Group + "/" + u.Application.Name
}

func (o options) print(out cli.Terminal, uses []Use) error {
	switch {
	case o.output.Machine():
		if uses == nil {
			uses = []Use{}
		}
		return o.output.Print(out, answer{cli.NewHeader("UseList"), uses})
	case o.output.Format == cli.FormatName:
		var names []string
		for _, u := range uses {
			names = append(names, u.name())
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
		for _, f := range u.Found {
			app := strings.TrimSpace(u.Application.Kind + " " + u.Application.Name)
			row := []string{app, cli.OrNone(u.Application.Component), u.Object.Kind + " " + u.Object.Name, f.Uses, f.Path}
			if o.allNamespaces {
				row = append([]string{u.Namespace}, row...)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if out.Width > 0 && width(t) > out.Width {
		blocks(out, uses, o.allNamespaces)
		return nil
	}
	t.Print(out)
	return nil
}

// width is that of the whole table.
func width(t cli.Table) int {
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

// blocks is for a terminal on which the table would be a muddle of broken lines: paths are
// long, and people copy them.
func blocks(out cli.Terminal, uses []Use, namespaces bool) {
	for _, u := range uses {
		app := u.Application.Name
		if namespaces {
			app = u.Namespace + "/" + app
		}
		fmt.Fprintln(out, out.Paint(cli.Bold, strings.TrimSpace(u.Application.Kind+" "+app))+", component "+cli.OrNone(u.Application.Component))
		for _, f := range u.Found {
			fmt.Fprintf(out, "  %s %s uses %s\n    %s\n", u.Object.Kind, u.Object.Name, f.Uses, f.Path)
		}
	}
}
