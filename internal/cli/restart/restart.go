package restart

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

func run(ctx context.Context, env *cli.Env, component string, args []string, out io.Writer) error {
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return err
	}
	if err := possible(app, component); err != nil {
		return err
	}
	at := env.Now().UTC().Format(time.RFC3339)
	var r result
	_, err = cli.Edit(ctx, c, app, func(spec map[string]any) (bool, error) {
		r = set(app, spec, component, at)
		if len(r.restarted) == 0 {
			return false, fmt.Errorf("%s has nothing that could restart: %s; change the spec of a job to run it again", cli.Title(app), r.leftOut())
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, r.sentence(app))
	return nil
}

// possible refuses what the kind cannot say.
func possible(app cli.Application, component string) error {
	switch o := app.(type) {
	case *appsapi.CloudManager:
		var children []string
		for _, c := range o.Status.Components {
			switch {
			case component != "" && c.Name != component:
			case c.Type == appsapi.ComponentStateful:
				children = append(children, "statefulset/"+c.ResourceName)
			default:
				children = append(children, "deployment/"+c.ResourceName)
			}
		}
		if len(children) == 0 {
			return fmt.Errorf("%s cannot be restarted: its kind has no field for that, and its status names no children; kubectl holdfast wait %s -n %s tells when there are some", cli.Title(app), o.Name, o.Namespace)
		}
		return fmt.Errorf("%s cannot be restarted by its spec: its kind has no field for that; restart its children, which the operator lets happen: kubectl rollout restart %s -n %s", cli.Title(app), strings.Join(children, " "), o.Namespace)
	case *appsapi.AppService:
		if component != "" {
			return fmt.Errorf("%s has no components; leave --component out", cli.Title(app))
		}
		return nil
	}
	if component == "" {
		return nil
	}
	return cli.CheckComponent(app, component)
}

// result is what a restart is about.
type result struct {
	restarted []string
	jobs      []string
	// suspended are those that restart only once they are no longer suspended.
	suspended []string
}

// set asks for the restart in a spec.
func set(app cli.Application, spec map[string]any, component, at string) result {
	var r result
	suspended, _ := spec["suspend"].(bool)
	if _, ok := app.(*appsapi.AppService); ok {
		stamp(spec, at)
		r.restarted = []string{app.GetName()}
		if suspended {
			r.suspended = r.restarted
		}
		return r
	}
	for _, c := range cli.ComponentSpecs(spec) {
		name := fmt.Sprint(c["name"])
		if component != "" && name != component {
			continue
		}
		server, _ := c["service"].(map[string]any)
		if server == nil {
			server, _ = c["stateful"].(map[string]any)
		}
		if server == nil {
			r.jobs = append(r.jobs, name)
			continue
		}
		stamp(server, at)
		r.restarted = append(r.restarted, name)
		if own, _ := c["suspend"].(bool); own || suspended {
			r.suspended = append(r.suspended, name)
		}
	}
	return r
}

func stamp(server map[string]any, at string) {
	update, _ := server["update"].(map[string]any)
	if update == nil {
		update = map[string]any{}
	}
	update["restartedAt"] = at
	server["update"] = update
}

func (r result) leftOut() string {
	return fmt.Sprintf("jobs do not run again (%s)", strings.Join(r.jobs, ", "))
}

func (r result) sentence(app cli.Application) string {
	var b strings.Builder
	if _, ok := app.(*appsapi.AppService); ok {
		fmt.Fprintf(&b, "%s restarts.", cli.Title(app))
	} else {
		fmt.Fprintf(&b, "%s restarts: %s.", cli.Title(app), strings.Join(r.restarted, ", "))
	}
	if len(r.jobs) > 0 {
		fmt.Fprintf(&b, " Left out: %s.", r.leftOut())
	}
	if len(r.suspended) > 0 {
		fmt.Fprintf(&b, " Suspended, so only after kubectl holdfast resume: %s.", strings.Join(r.suspended, ", "))
		return b.String()
	}
	fmt.Fprintf(&b, " Follow it: kubectl holdfast wait %s -n %s", app.GetName(), app.GetNamespace())
	return b.String()
}
