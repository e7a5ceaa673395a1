package edit

import (
	"fmt"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// RestartResult is the result of [Restart].
type RestartResult struct {
	app appkind.Application
	// Components are the components that restart; that of an AppService has the name of the AppService.
	Components []string
	// Jobs are skipped, because they do not run again.
	Jobs []string
	// Suspended are the Components that restart only after they are resumed.
	Suspended []string
}

// Restart requests a restart of an application or of one of its components.
func Restart(app appkind.Application, spec map[string]any, component string, now time.Time) (RestartResult, error) {
	r := RestartResult{app: app}
	if !appkind.Of(app).Operations {
		return r, restartUnsupportedError(app, component)
	}
	o, err := newOperations(app, spec)
	if err != nil {
		return r, err
	}
	selected, err := o.selected(component)
	if err != nil {
		return r, err
	}
	for _, c := range selected {
		if c.Server == nil {
			r.Jobs = append(r.Jobs, o.nameOf(c))
			continue
		}
		o.set(c, restartRequestedAt, now.UTC().Format(time.RFC3339))
		r.Components = append(r.Components, o.nameOf(c))
		if o.suspended(c) {
			r.Suspended = append(r.Suspended, o.nameOf(c))
		}
	}
	if len(r.Components) == 0 {
		return r, appkind.UserErrorf("%s has no component to restart: %s; to run a job again: kubectl holdfast run %s -n %s",
			appkind.Title(app), r.skippedJobs(), app.GetName(), app.GetNamespace())
	}
	return r, nil
}

// restartUnsupportedError explains how to restart an application whose kind has no operations.
func restartUnsupportedError(app appkind.Application, component string) error {
	var reported []appsapi.ComponentStatus
	if stack, ok := app.(appkind.Stack); ok {
		reported = stack.StackStatus().Components
	}
	var children []string
	for _, c := range reported {
		switch {
		case component != "" && c.Name != component:
		case c.Type == appsapi.ComponentStateful, c.Type == appsapi.ComponentDatabase:
			children = append(children, "statefulset/"+c.ResourceName)
		default:
			children = append(children, "deployment/"+c.ResourceName)
		}
	}
	if len(children) == 0 {
		return appkind.UserErrorf("%s cannot be restarted: its kind has no operations, and its status lists no workloads yet; to wait for "+
			"them: kubectl holdfast wait %s -n %s", appkind.Title(app), app.GetName(), app.GetNamespace())
	}
	return appkind.UserErrorf("%s cannot be restarted through its spec: its kind has no operations; restart its workloads instead: "+
		"kubectl rollout restart %s -n %s", appkind.Title(app), strings.Join(children, " "), app.GetNamespace())
}

func (r RestartResult) skippedJobs() string {
	return fmt.Sprintf("jobs are not restarted (%s)", strings.Join(r.Jobs, ", "))
}

// String returns a message with the restarted and the skipped components.
func (r RestartResult) String() string {
	var b strings.Builder
	if layout := appkind.Of(r.app).Layout; layout != nil && layout.SingleComponent {
		fmt.Fprintf(&b, "%s restarts.", appkind.Title(r.app))
	} else {
		fmt.Fprintf(&b, "%s restarts: %s.", appkind.Title(r.app), strings.Join(r.Components, ", "))
	}
	if len(r.Jobs) > 0 {
		fmt.Fprintf(&b, " Skipped: %s.", r.skippedJobs())
	}
	return b.String()
}
