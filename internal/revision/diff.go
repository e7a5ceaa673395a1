package revision

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// Spec is a spec, or its stored part, as the API server returns it. It includes fields that this
// version does not know.
type Spec = map[string]any

// SpecChange is a difference between two specs. Before is nil if it was added, After is nil if it
// was removed. For a renamed component they are its names, and Path is empty.
type SpecChange struct {
	// Component is empty for a change of the application.
	Component string `json:"component,omitempty"`
	// Path is the path of the field within the component; empty for the component itself.
	Path   objdiff.Path `json:"path,omitempty"`
	Before any          `json:"before,omitempty"`
	After  any          `json:"after,omitempty"`
}

// redactedValue replaces secret values.
const redactedValue = "(hidden)"

// secretFields are the fields that contain passwords.
var secretFields = []string{"rootPass"}

// componentSections are fields that only contain the settings of a component type.
var componentSections = []string{"service", "stateful", "job", "database", "deployment", "statefulSet"}

// Diff returns the differences of two specs. Within a component the image comes first, because
// users look for it.
func Diff(before, after Spec) []SpecChange {
	locate := func(path objdiff.Path) (component string, rest objdiff.Path) {
		switch {
		case len(path) == 0:
			return "", nil
		case len(path) > 1 && path[0].Name == "components" && path[1].Item:
			component, rest = path[1].Name, path[2:]
		case isMap(before[path[0].Name]) || isMap(after[path[0].Name]):
			component, rest = path[0].Name, path[1:]
		default:
			return "", path
		}
		// Only the first section is omitted: a service component has a field named service, too.
		if len(rest) > 0 && slices.Contains(componentSections, rest[0].Name) {
			rest = rest[1:]
		}
		return component, rest
	}
	isWhole := func(path objdiff.Path) bool {
		component, rest := locate(path)
		return path.Last().Item || component != "" && len(rest) == 0
	}
	before, out := applyRenames(before, after)
	// With swapped arguments, so that list items have the order of the later spec.
	for _, c := range imagesFirst(objdiff.Diff(after, before, isWhole)) {
		component, path := locate(c.Path)
		if len(path) == 1 && path[0].Name == "renamedFrom" && isRenamed(out, component) {
			continue // reported as a rename
		}
		out = append(out, SpecChange{Component: component, Path: path, Before: redactAt(path, c.New), After: redactAt(path, c.Old)})
	}
	return out
}

// applyRenames returns a copy of the earlier spec with the components that the later spec renames under their new
// names, and these renames.
func applyRenames(before, after Spec) (Spec, []SpecChange) {
	var renames []SpecChange
	earlier, _ := before["components"].([]any)
	later, _ := after["components"].([]any)
	find := func(components []any, name any) int {
		return slices.IndexFunc(components, func(c any) bool { return isMap(c) && c.(map[string]any)["name"] == name })
	}
	earlier = slices.Clone(earlier)
	for _, c := range later {
		component, _ := c.(map[string]any)
		name, _ := component["name"].(string)
		previous, _ := component["renamedFrom"].(string)
		i := find(earlier, previous)
		if previous == "" || i < 0 || find(later, previous) >= 0 || find(earlier, name) >= 0 {
			continue
		}
		renamed := maps.Clone(earlier[i].(map[string]any))
		renamed["name"] = name
		earlier[i] = renamed
		renames = append(renames, SpecChange{Component: name, Before: previous, After: name})
	}
	if renames == nil {
		return before, nil
	}
	before = maps.Clone(before)
	before["components"] = earlier
	return before, renames
}

// isRename reports whether the change is a rename of its component.
func (c SpecChange) isRename() bool {
	_, ok := c.Before.(string)
	return ok && len(c.Path) == 0 && c.After == c.Component
}

func isRenamed(changes []SpecChange, component string) bool {
	return slices.ContainsFunc(changes, func(c SpecChange) bool { return c.isRename() && c.Component == component })
}

// imagesFirst moves the change of an image before the other changes of its parent.
func imagesFirst(changes []objdiff.FieldChange) []objdiff.FieldChange {
	for i, c := range changes {
		if c.Path.Last() != (objdiff.Step{Name: "image"}) {
			continue
		}
		parent, first := c.Path[:len(c.Path)-1], i
		for first > 0 && changes[first-1].Path.HasPrefix(parent) {
			first--
		}
		copy(changes[first+1:i+1], changes[first:i])
		changes[first] = c
	}
	return changes
}

func redactAt(path objdiff.Path, value any) any {
	if value != nil && slices.Contains(secretFields, path.Last().Name) {
		return redactedValue
	}
	if m, ok := value.(map[string]any); ok {
		return Redact(m)
	}
	return value
}

func isMap(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// String formats the change in one line.
func (c SpecChange) String() string {
	if c.Component == "" {
		return c.Describe()
	}
	return c.Component + ": " + c.Describe()
}

// Describe formats the change without its component.
func (c SpecChange) Describe() string {
	path := c.Path.String()
	if path != "" {
		path += " "
	}
	before, after := ShortValue(c.Before), ShortValue(c.After)
	switch {
	case c.isRename():
		return "renamed from " + before
	case c.Before == nil && after != "" && len(c.Path) > 0:
		return path + "set to " + after
	case c.Before == nil:
		return path + "added"
	case c.After == nil && before != "" && len(c.Path) > 0:
		return path + "removed, was " + before
	case c.After == nil:
		return path + "removed"
	case before != "" && after != "":
		return path + before + " -> " + after
	}
	beforeText, beforeIsText := c.Before.(string)
	afterText, afterIsText := c.After.(string)
	if beforeIsText && afterIsText {
		return fmt.Sprintf("%schanged, %s -> %s", path, lineCount(beforeText), lineCount(afterText))
	}
	return path + "changed"
}

// maxShortValue is the maximum length of a value in a line.
const maxShortValue = 80

// ShortValue formats a value in a line, or returns "" if it is too long.
func ShortValue(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if text = v; strings.Contains(text, "\n") {
			return ""
		}
		if text == "" || strings.ContainsAny(text, " \t") {
			text = fmt.Sprintf("%q", v)
		}
	case map[string]any:
		return shortEntry(v)
	case []any:
		content, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		text = string(content)
	default:
		text = fmt.Sprint(v)
	}
	if utf8.RuneCountInString(text) > maxShortValue {
		return ""
	}
	return text
}

// shortEntry formats a list entry with a name and a value, for example a variable.
func shortEntry(entry map[string]any) string {
	if value, ok := entry["value"].(string); ok && len(entry) == 2 && entry["name"] != nil {
		return ShortValue(value)
	}
	return ""
}

func lineCount(text string) string {
	n := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// Redact returns a copy of a spec without secret values.
func Redact(spec Spec) Spec {
	out := Spec{}
	for field, value := range spec {
		switch v := value.(type) {
		case map[string]any:
			value = Redact(v)
		default:
			if slices.Contains(secretFields, field) {
				value = redactedValue
			}
		}
		out[field] = value
	}
	return out
}
