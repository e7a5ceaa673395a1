package drift

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// maxValueWidth is the maximum width of a value. -o wide prints whole values.
const maxValueWidth = 32

// print prints the corrections. A table has one row for each field, with the columns of the application
// if there can be several.
func (o *options) print(l List, scope string, several bool, now time.Time, out cli.Terminal, errOut io.Writer) error {
	if o.output.IsMachineReadable() {
		return o.output.Print(out, l)
	}
	if len(l.Items) == 0 {
		fmt.Fprintf(errOut, "No drift %s was corrected.\n", scope)
		return nil
	}
	table := cli.Table{Columns: []string{"AGE", "OBJECT", "FIELD", "FROM", "TO", "MANAGER", "COUNT"}, NoHeaders: o.noHeaders}
	var application []string
	if o.allNamespaces {
		application = append(application, "NAMESPACE")
	}
	if several {
		application = append(application, "APPLICATION")
	}
	table.Columns = slices.Insert(table.Columns, 1, application...)
	for _, item := range l.Items {
		var names []string
		if o.allNamespaces {
			names = append(names, item.Application.Namespace)
		}
		if several {
			names = append(names, item.Application.Name)
		}
		for _, row := range o.rows(item.DriftCorrection, now) {
			table.Rows = append(table.Rows, slices.Insert(row, 1, names...))
		}
	}
	table.Print(out)
	return nil
}

// rows returns the rows of a correction.
func (o *options) rows(d appsapi.DriftCorrection, now time.Time) [][]string {
	newRow := func(field, from, to string) []string {
		return []string{
			collect.Age(d.LastTime.Time, now), d.Object.Kind + "/" + d.Object.Name, field, cli.OrDash(from), cli.OrDash(to),
			cli.OrDash(strings.Join(d.Managers, ",")), strconv.Itoa(int(d.Count)),
		}
	}
	var rows [][]string
	if d.Deleted || len(d.Fields) == 0 {
		rows = append(rows, newRow("-", "(deleted)", "(created)"))
	}
	for _, f := range d.Fields {
		rows = append(rows, newRow(f.Path, o.shorten(f.From), o.shorten(f.To)))
	}
	return rows
}

func (o *options) shorten(value string) string {
	if runes := []rune(value); len(runes) > maxValueWidth && o.output.Format != cli.FormatWide {
		return string(runes[:maxValueWidth-3]) + "..."
	}
	return value
}
