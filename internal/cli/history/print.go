package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// enough changes to recognise a revision by; -o wide has all.
const enough = 3

func printList(o cli.Output, l List, now time.Time, out cli.Terminal) error {
	switch {
	case o.Machine():
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
	table.Paint = func(column int, text string) string {
		switch {
		case column == 2 && text == "yes":
			return out.Paint(cli.Good, text)
		case column == 3 && text == "yes":
			return out.Paint(cli.Bold, text)
		}
		return text
	}
	for i, item := range l.Items {
		when := duration.HumanDuration(now.Sub(item.Created)) + " ago"
		if wide {
			when = item.Created.Format(time.RFC3339)
		}
		row := []string{strconv.FormatInt(item.Revision, 10), when, yes(item.Healthy, "no"), yes(item.Current, "-")}
		if wide {
			row = append(row, item.Name)
		}
		table.Rows = append(table.Rows, append(row, summary(item.Changes, i == 0, wide)))
	}
	table.Print(out)
	return nil
}

func summary(changes []revisions.Change, first, all bool) string {
	switch {
	case first:
		return "the oldest that is remembered"
	case len(changes) == 0:
		return "only the order"
	}
	var words []string
	for i, c := range changes {
		if i == enough && !all {
			words = append(words, fmt.Sprintf("and %d more", len(changes)-enough))
			break
		}
		words = append(words, c.String())
	}
	return strings.Join(words, "; ")
}

func yes(is bool, otherwise string) string {
	if is {
		return "yes"
	}
	return otherwise
}

func objectName(name string) string { return "controllerrevision.apps/" + name }
