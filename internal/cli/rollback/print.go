package rollback

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// printRollback prints the changes of a rollback.
func printRollback(d *edit.Rollback, app appkind.Application, now time.Time, out cli.Terminal) {
	health := "became ready"
	if !d.Target.Healthy {
		health = "never became ready"
	}
	fmt.Fprintf(out, "Roll back %s to revision %d (%s, first applied %s ago)\n\n",
		appkind.Title(app), d.Target.Number, health, duration.HumanDuration(now.Sub(d.Target.Created)))
	cli.PrintChanges(d.Changes, out)
	printSection(out, "Not changed:", unchangedFields(d))
	printSection(out, "Data:", d.Notes)
}

func printSection(out cli.Terminal, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for _, text := range lines {
		width := 0
		if out.Width > 0 {
			width = max(out.Width-2, 20)
		}
		fmt.Fprintln(out, "  "+strings.Join(cli.Wrap(text, width), "\n  "))
	}
}

// unchangedFields lists the fields that keep their current value, with the value in the revision.
func unchangedFields(d *edit.Rollback) []string {
	var out []string
	for _, c := range d.NotableRetained() {
		out = append(out, fmt.Sprintf("%s: %s %s (%s in revision %d)", c.Component, c.Path, formatValue(c.After), formatValue(c.Before), d.Target.Number))
	}
	return out
}

func formatValue(value any) string {
	if value == nil {
		return "not set"
	}
	if text := revision.ShortValue(value); text != "" {
		return text
	}
	return "a different value"
}
