package inspect_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

// Fixes name fields by their path in the spec of the application, so that users can search for them.
func TestFixNamesFieldOfTheSpec(t *testing.T) {
	for name, tc := range map[string]struct{ kind, spec, component, want string }{
		"service":  {"appservice", `{image: "shop/web:1"}`, "app", "spec.image"},
		"stack":    {"appstack", `{components: [{name: api, service: {image: "shop/api:1"}}]}`, "api", "spec.components[api].service.image"},
		"stateful": {"appstack", `{components: [{name: q, stateful: {image: "q:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}]}`, "q", "spec.components[q].stateful.image"},
		"database": {"appstack", `{components: [{name: db, database: {version: "11.8", storage: {size: 1Gi}}}]}`, "db", "spec.components[db].database.image"},
		"CloudManager": {"cloudmanager", `{front: {deployment: {image: "f:1"}}, identity: {deployment: {image: "i:1"}}, ` +
			`db: {statefulSet: {image: "m:1", storage: {size: 1Gi}}}}`, "front", "spec.front.deployment.image"},
		"server of a CloudManager": {"cloudmanager", `{front: {deployment: {image: "f:1"}}, identity: {deployment: {image: "i:1"}}, ` +
			`db: {statefulSet: {image: "m:1", storage: {size: 1Gi}}}}`, "db", "spec.db.statefulSet.image"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixtures.New(tc.kind, "app", tc.spec)
			s.RunAll()
			s.SetImageNotFound(tc.component)
			causes := inspect.Evaluate(s.Input()).Causes
			if len(causes) != 1 || !strings.Contains(causes[0].Fix, " "+tc.want+" ") {
				t.Errorf("got %+v, want one fix that names %s", causes, tc.want)
			}
		})
	}
}
