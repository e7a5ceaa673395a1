package rollback

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/revisions"
)

// print prints the decision for people.
func (d *decision) print(app cli.Application, now time.Time, out cli.Terminal) {
	health := "everything was ready with it"
	if !d.to.Healthy {
		health = "never was everything ready with it"
	}
	fmt.Fprintf(out, "%s, back to revision %d: %s; first applied %s ago\n\n", cli.Title(app), d.to.Number, health, duration.HumanDuration(now.Sub(d.to.Created)))
	revisions.Print(d.changes, out)
	section(out, "Stays as it is:", d.staying())
	section(out, "Data:", d.notes)
}

func section(out cli.Terminal, title string, lines []string) {
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

// staying says what the revision had otherwise. What revisions do not remember, such as a
// password, is no news, and names are in the notes.
func (d *decision) staying() []string {
	var out []string
	for _, c := range d.stays {
		if c.Path == "renamedFrom" || c.Path == "rootPass" || c.Path == "" {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s %s (%s in revision %d)", c.Component, c.Path, valueOr(c.After), valueOr(c.Before), d.to.Number))
	}
	return out
}

func valueOr(value any) string {
	if value == nil {
		return "not set"
	}
	if text := revisions.Short(value); text != "" {
		return text
	}
	return "something else"
}
