package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// maxListedChanges is the number of changes listed per revision. -o wide lists all changes.
const maxListedChanges = 3

func printList(o cli.Output, l List, now time.Time, out cli.Terminal) error {
	switch {
	case o.IsMachineReadable():
		return o.Print(out, l)
	case o.Format == cli.FormatName:
		for _, item := range l.Items {
			fmt.Fprintln(out, objectName(item.Name))
		}
		return nil
	}
	wide := o.Format == cli.FormatWide
	table := cli.Table{Columns: []string{"REVISION", "FIRST APPLIED", "HEALTHY", "CURRENT", "CHANGES"}}
	if wide {
		table.Columns = []string{"REVISION", "FIRST APPLIED", "HEALTHY", "CURRENT", "NAME", "CHANGES"}
	}
	table.Colorize = func(column int, text string) string {
		switch {
		case column == 2 && text == "yes":
			return out.Colorize(cli.ColorGood, text)
		case column == 3 && text == "yes":
			return out.Colorize(cli.StyleBold, text)
		}
		return text
	}
	for i, item := range l.Items {
		when := duration.HumanDuration(now.Sub(item.Created)) + " ago"
		if wide {
			when = item.Created.Format(time.RFC3339)
		}
		row := []string{strconv.FormatInt(item.Revision, 10), when, yesOr(item.Healthy, "no"), yesOr(item.Current, "-")}
		if wide {
			row = append(row, item.Name)
		}
		table.Rows = append(table.Rows, append(row, summary(item.Changes, i == 0, wide)))
	}
	table.Print(out)
	return nil
}

func summary(changes []revision.SpecChange, first, all bool) string {
	switch {
	case first:
		return "oldest saved revision"
	case len(changes) == 0:
		return "order only"
	}
	var parts []string
	for i, c := range changes {
		if i == maxListedChanges && !all {
			parts = append(parts, fmt.Sprintf("and %d more", len(changes)-maxListedChanges))
			break
		}
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "; ")
}

func yesOr(value bool, otherwise string) string {
	if value {
		return "yes"
	}
	return otherwise
}

func objectName(name string) string { return "controllerrevision.apps/" + name }
