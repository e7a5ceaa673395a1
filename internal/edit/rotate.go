package edit

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// Rotate requests a password rotation in the spec of an application, for all its databases or for one. It
// only sets rotation.requestedAt, and returns a message.
func Rotate(app appkind.Application, spec map[string]any, component string, now time.Time) (string, error) {
	layout, err := layoutOf(app)
	if err != nil {
		return "", err
	}
	selected, err := selectComponents(app, layout, spec, component)
	if err != nil {
		return "", err
	}
	at := now.UTC().Format(time.RFC3339)
	var names []string
	for _, c := range selected {
		if c.Database == nil {
			continue
		}
		if c.Database["rootPasswordSecretRef"] != nil && c.Database["passwordSecretRef"] != nil {
			return "", appkind.UserErrorf("both passwords of component %q of %s come from user-provided Secrets; change them there", c.Name,
				appkind.Title(app))
		}
		requestRotation(c.Database, at)
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return "", noDatabaseError(app, component)
	}
	return fmt.Sprintf("%s: password rotation requested for %s.", appkind.Title(app), strings.Join(names, ", ")), nil
}

func requestRotation(database map[string]any, at string) {
	rotation, _ := database["rotation"].(map[string]any)
	if rotation == nil {
		rotation = map[string]any{}
	}
	rotation["requestedAt"] = at
	database["rotation"] = rotation
}

func noDatabaseError(app appkind.Application, component string) error {
	if component != "" {
		return appkind.UserErrorf("component %q of %s is not a database, so it has no passwords to rotate", component, appkind.Title(app))
	}
	return appkind.UserErrorf("%s has no database, so there are no passwords to rotate", appkind.Title(app))
}
