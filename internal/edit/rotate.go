package edit

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// Rotate requests a password rotation for all databases of an application or for one, and returns a message.
func Rotate(app appkind.Application, spec map[string]any, component string, now time.Time) (string, error) {
	o, err := newOperations(app, spec)
	if err != nil {
		return "", err
	}
	selected, err := o.selected(component)
	if err != nil {
		return "", err
	}
	var names []string
	for _, c := range selected {
		if c.Database == nil {
			continue
		}
		if c.Database["rootPasswordSecretRef"] != nil && c.Database["passwordSecretRef"] != nil {
			return "", appkind.UserErrorf("both passwords of component %q of %s come from user-provided Secrets; change them there", c.Name,
				appkind.Title(app))
		}
		o.set(c, rotationRequestedAt, now.UTC().Format(time.RFC3339))
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return "", noDatabaseError(app, component)
	}
	return fmt.Sprintf("%s: password rotation requested for %s.", appkind.Title(app), strings.Join(names, ", ")), nil
}

func noDatabaseError(app appkind.Application, component string) error {
	if component != "" {
		return appkind.UserErrorf("component %q of %s is not a database, so it has no passwords to rotate", component, appkind.Title(app))
	}
	return appkind.UserErrorf("%s has no database, so there are no passwords to rotate", appkind.Title(app))
}
