package look

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// Title is the first line about an application: its name, and how it is.
func (l Look) Title(now time.Time) string {
	well := 0
	for _, c := range l.Components {
		if c.Health == health.Healthy {
			well++
		}
	}
	state := "READY"
	switch {
	case !l.Ready:
		state = "NOT READY"
	case l.Health == health.Degraded:
		state = "READY, with trouble,"
	}
	name := l.Name
	if l.Namespace != "" {
		name = l.Namespace + "/" + name
	}
	if len(l.Components) == 0 {
		if l.Health == health.Unknown {
			state = "UNKNOWN"
		}
		return fmt.Sprintf("%s %s  %s %s", l.Kind, name, state, Age(l.Since, now))
	}
	return fmt.Sprintf("%s %s  %s %s  (%d of %d components ready)", l.Kind, name, state, Age(l.Since, now), well, len(l.Components))
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
