package collect

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// PrintTitle prints the name and state of an application. If the line is too long for the terminal, the
// component summary is printed on a second line.
func (l Result) PrintTitle(out cli.Terminal, now time.Time) {
	state, color := "READY", cli.ColorGood
	switch {
	case l.Deleting:
		state, color = "BEING DELETED", cli.ColorWarning
	case !l.Ready:
		state, color = "NOT READY", cli.ColorBad
	case l.Health == health.Degraded:
		state, color = "READY, DEGRADED", cli.ColorWarning
	}
	name := l.Name
	if l.Namespace != "" {
		name = l.Namespace + "/" + name
	}
	title := func() string {
		if l.Since.IsZero() {
			return fmt.Sprintf("%s %s  %s", l.Kind, name, state)
		}
		return fmt.Sprintf("%s %s  %s for %s", l.Kind, name, state, Age(l.Since, now))
	}
	if len(l.Components) == 0 { // an object of another kind
		switch l.Health {
		case health.Unknown:
			state, color = "UNKNOWN", cli.StyleDim
		case health.Suspended:
			state, color = "SUSPENDED", cli.ColorWarning
		}
		fmt.Fprintln(out, out.Colorize(color, title()))
		return
	}
	summary := "(" + l.componentSummary() + ")"
	separator := "  "
	if out.Width > 0 && utf8.RuneCountInString(title()+separator+summary) > out.Width {
		separator = "\n"
	}
	fmt.Fprintln(out, out.Colorize(color, title())+separator+summary)
}

// componentSummary counts the ready components. A suspended component counts if its pods are ready.
func (l Result) componentSummary() string {
	ready, unknown := 0, 0
	for _, c := range l.Components {
		switch {
		case c.Health == health.Healthy, c.Health == health.Suspended && c.Ready >= c.Desired:
			ready++
		case c.Health == health.Unknown:
			unknown++
		}
	}
	text := fmt.Sprintf("%d of %d components ready", ready, len(l.Components))
	if len(l.Components) == 1 && ReadyPods(l.Components[0]) != "-" {
		text = fmt.Sprintf("%d of %d pods ready", l.Components[0].Ready, l.Components[0].Desired)
	}
	if unknown > 0 {
		text += fmt.Sprintf(", %d not checked", unknown)
	}
	if ready == len(l.Components) && !l.Ready && !l.Deleting && l.Health == health.Progressing {
		text += ", waiting for the operator" // it has not observed or confirmed the latest change
	}
	return text
}

// ReadyPods returns the ready and desired pods of a component, such as 1/2. It returns a dash for jobs
// and for components that do not run.
func ReadyPods(c inspect.Component) string {
	runs := c.Health == health.Healthy || c.Health == health.Suspended
	if c.Desired == 0 && (c.Type == appsapi.ComponentJob || !runs) {
		return "-"
	}
	return fmt.Sprintf("%d/%d", c.Ready, c.Desired)
}

// TrimSubject removes the name of the object from a message that is printed next to the name.
func TrimSubject(message, kind, namespace, name string) string {
	for _, subject := range []string{fmt.Sprintf("%s %s/%s ", kind, namespace, name), fmt.Sprintf("%s %s ", kind, name)} {
		if rest, ok := strings.CutPrefix(message, subject); ok {
			return rest
		}
	}
	return message
}

// PrintUnread prints the kinds that could not be read, grouped by reason.
func (l Result) PrintUnread(out cli.Terminal) {
	var reasons []string
	kinds := map[string][]string{}
	for _, m := range l.Unread {
		kind, reason, _ := strings.Cut(m, ": ")
		if kinds[reason] == nil {
			reasons = append(reasons, reason)
		}
		kinds[reason] = append(kinds[reason], kind)
	}
	for _, reason := range reasons {
		for i, line := range cli.Wrap(fmt.Sprintf("not checked: %s (%s)", strings.Join(kinds[reason], ", "), reason), max(out.Width-2, 0)) {
			if i > 0 {
				line = "  " + line
			}
			fmt.Fprintln(out, line)
		}
	}
}

// Age formats the time since t as kubectl does.
func Age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(t))
}

// HealthColor returns the color of a health status.
func HealthColor(h health.Status) string {
	switch h {
	case health.Healthy:
		return cli.ColorGood
	case health.Degraded:
		return cli.ColorBad
	case health.Progressing, inspect.Waiting:
		return cli.ColorWarning
	}
	return cli.StyleDim
}
