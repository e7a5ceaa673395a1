package appkind

import (
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// AppStackSpecPath returns the path of a component in the spec of a stack: spec.components[web].service.
func AppStackSpecPath(c appsapi.Component) string {
	return fmt.Sprintf("spec.components[%s].%s", c.Name, strings.ToLower(string(desired.TypeOf(c))))
}

// AppServiceSpecPath returns the path of the only component.
func AppServiceSpecPath(appsapi.Component) string { return "spec" }

// CloudManagerSpecPath returns the path of a component in the spec of a CloudManager.
func CloudManagerSpecPath(c appsapi.Component) string {
	if c.Database != nil {
		return "spec.db.statefulSet"
	}
	return "spec." + c.Name + ".deployment"
}
