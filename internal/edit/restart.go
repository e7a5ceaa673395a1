package edit

import (
	"fmt"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// RestartResult is what a restart is about.
type RestartResult struct {
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
func Restart(app application.Application, spec map[string]any, component string, now time.Time) (RestartResult, error) {
	r := RestartResult{app: app}
	if cm, ok := app.(*appsapi.CloudManager); ok {
		return r, restartUnsupportedError(cm, component)
	}
	if err := checkComponent(app, spec, component); err != nil {
		return r, err
	}
	at := now.UTC().Format(time.RFC3339)
	if _, ok := app.(*appsapi.AppService); ok {
		setRestartedAt(spec, at)
		r.Components = []string{app.GetName()}
		if isSuspended(spec, nil) {
			r.Suspended = r.Components
		}
		return r, nil
	}
	for _, c := range componentSpecs(spec) {
		if component != "" && componentName(c) != component {
			continue
		}
		s := longRunningSpec(c)
		if s == nil {
			r.Jobs = append(r.Jobs, componentName(c))
			continue
		}
		setRestartedAt(s, at)
		r.Components = append(r.Components, componentName(c))
		if isSuspended(spec, c) {
			r.Suspended = append(r.Suspended, componentName(c))
		}
	}
	if len(r.Components) == 0 {
		return r, application.UserErrorf("%s has nothing that could restart: %s; change the spec of a job to run it again", application.Title(app), r.skippedJobs())
	}
	return r, nil
}

// restartUnsupportedError says how to restart what has no field for it.
func restartUnsupportedError(cm *appsapi.CloudManager, component string) error {
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
		return application.UserErrorf("%s cannot be restarted: its kind has no field for that, and its status names no children; kubectl holdfast wait %s -n %s tells when there are some", application.Title(cm), cm.Name, cm.Namespace)
	}
	return application.UserErrorf("%s cannot be restarted by its spec: its kind has no field for that; restart its children, which the operator lets happen: kubectl rollout restart %s -n %s", application.Title(cm), strings.Join(children, " "), cm.Namespace)
}

func setRestartedAt(server map[string]any, at string) {
	update, _ := server["update"].(map[string]any)
	if update == nil {
		update = map[string]any{}
	}
	update["restartedAt"] = at
	server["update"] = update
}

func (r RestartResult) skippedJobs() string {
	return fmt.Sprintf("jobs do not run again (%s)", strings.Join(r.Jobs, ", "))
}

// String says what restarts and what does not.
func (r RestartResult) String() string {
	var b strings.Builder
	if _, ok := r.app.(*appsapi.AppService); ok {
		fmt.Fprintf(&b, "%s restarts.", application.Title(r.app))
	} else {
		fmt.Fprintf(&b, "%s restarts: %s.", application.Title(r.app), strings.Join(r.Components, ", "))
	}
	if len(r.Jobs) > 0 {
		fmt.Fprintf(&b, " Left out: %s.", r.skippedJobs())
	}
	return b.String()
}
