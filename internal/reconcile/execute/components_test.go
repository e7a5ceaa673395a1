package execute

import (
	"strings"
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// A kind of another operator can return components that cannot work.
func TestInvalidComponentsOfAKind(t *testing.T) {
	service, job := &appsapi.ServiceComponent{}, &appsapi.JobComponent{}
	var none *appsapi.ServiceComponent
	for name, tc := range map[string]struct {
		components func() []appsapi.Component
		want       string
	}{
		"valid":     {func() []appsapi.Component { return []appsapi.Component{{Name: "web", Service: service}} }, ""},
		"no type":   {func() []appsapi.Component { return []appsapi.Component{{Name: "web"}} }, `Component "web" has 0 types; set exactly one of service, stateful, job and database`},
		"two types": {func() []appsapi.Component { return []appsapi.Component{{Name: "web", Service: service, Job: job}} }, `Component "web" has 2 types; set exactly one`},
		"hidden type": {func() []appsapi.Component {
			return []appsapi.Component{{Name: "db", Stateful: &appsapi.StatefulComponent{}, Database: &appsapi.DatabaseComponent{}}}
		}, `Component "db" has 2 types`},
		"nil list":        {func() []appsapi.Component { return nil }, "The spec of Wiki notes has no components; add one"},
		"panic":           {func() []appsapi.Component { return []appsapi.Component{{Name: none.Image}} }, "The operator of Wiki cannot map the spec to components: runtime error"},
		"all at the same": {func() []appsapi.Component { return []appsapi.Component{{Name: "a"}, {Name: "b"}} }, `set exactly one of service, stateful, job and database. Component "b" has 0 types`},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Executor{Kind: Kind{Components: func(Application) []desired.ExpandedComponent { return desired.ExpandComponents(tc.components()) }}}
			e.Kind.GVK.Kind = "Wiki"
			app := &appsapi.AppService{}
			app.Name = "notes"
			_, err := e.components(t.Context(), app)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
