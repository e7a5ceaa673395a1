package suspend

import (
	"context"
	"fmt"
	"io"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

func run(ctx context.Context, env *cli.Env, suspend bool, component string, args []string, out io.Writer) error {
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return err
	}
	if err := possible(app, component); err != nil {
		return err
	}
	var rest remaining
	changed, err := cli.Edit(ctx, c, app, func(spec map[string]any) (bool, error) {
		changed := set(spec, component, suspend)
		rest = remains(spec)
		return changed, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, sentence(app, component, suspend, changed, rest))
	return nil
}

// possible refuses what the kind cannot say.
func possible(app cli.Application, component string) error {
	switch app.(type) {
	case *appsapi.CloudManager:
		return fmt.Errorf("%s cannot be suspended: its kind has no field for that; to keep the operator from writing, stop it for all applications: kubectl scale deployment holdfast-operator -n holdfast-system --replicas=0", cli.Title(app))
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

// set sets or unsets the field, and says whether that changes anything.
func set(spec map[string]any, component string, suspend bool) bool {
	at := spec
	if component != "" {
		for _, c := range cli.ComponentSpecs(spec) {
			if c["name"] == component {
				at = c
			}
		}
	}
	if is, _ := at["suspend"].(bool); is == suspend {
		return false
	}
	if suspend {
		at["suspend"] = true
	} else {
		delete(at, "suspend")
	}
	return true
}

// remaining is what is suspended.
type remaining struct {
	all        bool
	components []string
}

func remains(spec map[string]any) remaining {
	var r remaining
	r.all, _ = spec["suspend"].(bool)
	for _, c := range cli.ComponentSpecs(spec) {
		if is, _ := c["suspend"].(bool); is {
			r.components = append(r.components, fmt.Sprint(c["name"]))
		}
	}
	return r
}

func sentence(app cli.Application, component string, suspend, changed bool, rest remaining) string {
	what := cli.Title(app)
	again := fmt.Sprintf("kubectl holdfast resume %s -n %s", app.GetName(), app.GetNamespace())
	follow := fmt.Sprintf("kubectl holdfast wait %s -n %s", app.GetName(), app.GetNamespace())
	if component != "" {
		what = fmt.Sprintf("Component %q of %s", component, what)
	}
	if suspend {
		word := "is suspended"
		if !changed {
			word = "is suspended already"
		}
		flag := ""
		if component != "" {
			flag = " --component " + component
		}
		return fmt.Sprintf("%s %s: what runs keeps running; nothing is repaired or updated. To go on: %s%s", what, word, again, flag)
	}
	word, effect := "is no longer suspended", ": what changed meanwhile is repaired and applied now"
	if !changed {
		word, effect = "is not suspended", ""
	}
	switch {
	case component != "" && rest.all:
		return fmt.Sprintf("%s %s, but the whole application is, so nothing happens to it. To go on: %s", what, word, again)
	case component == "" && len(rest.components) > 0:
		return fmt.Sprintf("%s %s%s, apart from what is suspended on its own: %s. To go on there, too: %s --component %s", what, word, effect, strings.Join(rest.components, ", "), again, rest.components[0])
	case changed:
		return fmt.Sprintf("%s %s%s. Follow it: %s", what, word, effect, follow)
	}
	return what + " " + word + "; nothing to do."
}
