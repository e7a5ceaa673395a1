package look

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// PrintTitle prints the first line about an application: its name, and how it is. Where it
// is too long for the terminal, the components have a line of their own.
func (l Look) PrintTitle(out cli.Terminal, now time.Time) {
	state, colour := "READY", cli.Good
	switch {
	case l.Deleting:
		state, colour = "BEING DELETED", cli.Busy
	case !l.Ready:
		state, colour = "NOT READY", cli.Bad
	case l.Health == health.Degraded:
		state, colour = "READY, with trouble,", cli.Busy
	}
	name := l.Name
	if l.Namespace != "" {
		name = l.Namespace + "/" + name
	}
	title := func() string { return fmt.Sprintf("%s %s  %s %s", l.Kind, name, state, Age(l.Since, now)) }
	if len(l.Components) == 0 { // of a kind that is none of ours
		if l.Health == health.Unknown {
			state, colour = "UNKNOWN", cli.Dim
		}
		fmt.Fprintln(out, out.Paint(colour, title()))
		return
	}
	parts := "(" + l.parts() + ")"
	between := "  "
	if out.Width > 0 && utf8.RuneCountInString(title()+between+parts) > out.Width {
		between = "\n"
	}
	fmt.Fprintln(out, out.Paint(colour, title())+between+parts)
}

// parts is how many components are ready. One that is suspended and runs is.
func (l Look) parts() string {
	ready, unknown := 0, 0
	for _, c := range l.Components {
		switch {
		case c.Health == health.Healthy, c.Health == health.Suspended && c.Ready >= c.Wanted:
			ready++
		case c.Health == health.Unknown:
			unknown++
		}
	}
	text := fmt.Sprintf("%d of %d components ready", ready, len(l.Components))
	if len(l.Components) == 1 && Pods(l.Components[0]) != "-" {
		text = fmt.Sprintf("%d of %d pods ready", l.Components[0].Ready, l.Components[0].Wanted)
	}
	if unknown > 0 {
		text += fmt.Sprintf(", %d not looked at", unknown)
	}
	return text
}

// Pods is how many pods of a component are ready, of how many; a dash where none are wanted
// all the time, or nothing is there that would tell.
func Pods(c view.Component) string {
	runs := c.Health == health.Healthy || c.Health == health.Suspended
	if c.Wanted == 0 && (c.Type == appsapi.ComponentJob || !runs) {
		return "-"
	}
	return fmt.Sprintf("%d/%d", c.Ready, c.Wanted)
}

// Predicate is a message about an object without the name of it, which stands beside it.
func Predicate(message, kind, namespace, name string) string {
	for _, subject := range []string{fmt.Sprintf("%s %s/%s ", kind, namespace, name), fmt.Sprintf("%s %s ", kind, name)} {
		if rest, ok := strings.CutPrefix(message, subject); ok {
			return rest
		}
	}
	return message
}

// PrintMissed prints what could not be read: the kinds that have the same reason together.
func (l Look) PrintMissed(out cli.Terminal) {
	var reasons []string
	kinds := map[string][]string{}
	for _, m := range l.Missed {
		kind, why, _ := strings.Cut(m, ": ")
		if kinds[why] == nil {
			reasons = append(reasons, why)
		}
		kinds[why] = append(kinds[why], kind)
	}
	for _, why := range reasons {
		for i, line := range cli.Wrap(fmt.Sprintf("not looked at: %s: %s", strings.Join(kinds[why], ", "), why), max(out.Width-2, 0)) {
			if i > 0 {
				line = "  " + line
			}
			fmt.Fprintln(out, line)
		}
	}
}

// Age is how long ago something was, as kubectl says it.
func Age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(t))
}

// Colour is what a health looks like.
func Colour(h health.Status) string {
	switch h {
	case health.Healthy:
		return cli.Good
	case health.Degraded:
		return cli.Bad
	case health.Progressing, view.Waiting:
		return cli.Busy
	}
	return cli.Dim
}
