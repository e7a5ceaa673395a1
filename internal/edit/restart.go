package edit

import (
	"fmt"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// Restarted is what a restart is about.
type Restarted struct {
	app application.Application
	// Components that restart; that of an AppService has its name.
	Components []string
	// Jobs are left out: they do not run again.
	Jobs []string
	// Suspended are those of Components that restart only once they are resumed.
	Suspended []string
}

// Restart asks for a restart in the spec of an application, or of one of its components. It sets
// update.restartedAt and nothing else.
func Restart(app application.Application, spec map[string]any, component string, now time.Time) (Restarted, error) {
	r := Restarted{app: app}
	if cm, ok := app.(*appsapi.CloudManager); ok {
		return r, restartChildren(cm, component)
	}
	if err := checkComponent(app, spec, component); err != nil {
		return r, err
	}
	at := now.UTC().Format(time.RFC3339)
	if _, ok := app.(*appsapi.AppService); ok {
		stamp(spec, at)
		r.Components = []string{app.GetName()}
		if isSuspended(spec, nil) {
			r.Suspended = r.Components
		}
		return r, nil
	}
	for _, c := range componentSpecs(spec) {
		if component != "" && name(c) != component {
			continue
		}
		s := server(c)
		if s == nil {
			r.Jobs = append(r.Jobs, name(c))
			continue
		}
		stamp(s, at)
		r.Components = append(r.Components, name(c))
		if isSuspended(spec, c) {
			r.Suspended = append(r.Suspended, name(c))
		}
	}
	if len(r.Components) == 0 {
		return r, application.Refuse("%s has nothing that could restart: %s; change the spec of a job to run it again", application.Title(app), r.leftOut())
	}
	return r, nil
}

// restartChildren says how to restart what has no field for it.
func restartChildren(cm *appsapi.CloudManager, component string) error {
	var children []string
	for _, c := range cm.Status.Components {
		switch {
		case component != "" && c.Name != component:
		case c.Type == appsapi.ComponentStateful, c.Type == appsapi.ComponentDatabase:
			children = append(children, "statefulset/"+c.ResourceName)
		default:
			children = append(children, "deployment/"+c.ResourceName)
		}
	}
	if len(children) == 0 {
		return application.Refuse("%s cannot be restarted: its kind has no field for that, and its status names no children; kubectl holdfast wait %s -n %s tells when there are some", application.Title(cm), cm.Name, cm.Namespace)
	}
	return application.Refuse("%s cannot be restarted by its spec: its kind has no field for that; restart its children, which the operator lets happen: kubectl rollout restart %s -n %s", application.Title(cm), strings.Join(children, " "), cm.Namespace)
}

func stamp(server map[string]any, at string) {
	update, _ := server["update"].(map[string]any)
	if update == nil {
		update = map[string]any{}
	}
	update["restartedAt"] = at
	server["update"] = update
}

func (r Restarted) leftOut() string {
	return fmt.Sprintf("jobs do not run again (%s)", strings.Join(r.Jobs, ", "))
}

// String says what restarts and what does not.
func (r Restarted) String() string {
	var b strings.Builder
	if _, ok := r.app.(*appsapi.AppService); ok {
		fmt.Fprintf(&b, "%s restarts.", application.Title(r.app))
	} else {
		fmt.Fprintf(&b, "%s restarts: %s.", application.Title(r.app), strings.Join(r.Components, ", "))
	}
	if len(r.Jobs) > 0 {
		fmt.Fprintf(&b, " Left out: %s.", r.leftOut())
	}
	return b.String()
}
