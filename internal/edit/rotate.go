package edit

import (
	"fmt"
	"strings"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// Rotate asks for other passwords in the spec of an application: of its databases, or of one of them. It
// sets rotation.requestedAt and nothing else, and says what happens.
func Rotate(app application.Application, spec map[string]any, component string, now time.Time) (string, error) {
	at := now.UTC().Format(time.RFC3339)
	var names []string
	switch app.(type) {
	case *appsapi.CloudManager:
		db, _ := spec["db"].(map[string]any)
		if component != "" && component != "db" {
			return "", noDatabaseError(app, component)
		}
		requestRotation(db, at)
		names = []string{"db"}
	case *appsapi.AppStack:
		if err := checkComponent(app, spec, component); err != nil {
			return "", err
		}
		for _, c := range componentSpecs(spec) {
			db, ok := c["database"].(map[string]any)
			if ok && (component == "" || componentName(c) == component) {
				if db["rootPasswordSecretRef"] != nil && db["passwordSecretRef"] != nil {
					return "", application.UserErrorf("both passwords of component %q of %s come from Secrets of yours; change them there", componentName(c), application.Title(app))
				}
				requestRotation(db, at)
				names = append(names, componentName(c))
			}
		}
	}
	if len(names) == 0 {
		return "", noDatabaseError(app, component)
	}
	return fmt.Sprintf("%s gets other passwords: %s.", application.Title(app), strings.Join(names, ", ")), nil
}

func requestRotation(database map[string]any, at string) {
	rotation, _ := database["rotation"].(map[string]any)
	if rotation == nil {
		rotation = map[string]any{}
	}
	rotation["requestedAt"] = at
	database["rotation"] = rotation
}

func noDatabaseError(app application.Application, component string) error {
	if component != "" {
		return application.UserErrorf("component %q of %s is no database, so it has no passwords that could be replaced", component, application.Title(app))
	}
	return application.UserErrorf("%s has no database, so there are no passwords that could be replaced", application.Title(app))
}
