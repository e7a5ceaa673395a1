package revisions

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// SpecChange is one difference between two specs. Nothing before means that it was added,
// nothing after that it was removed.
type SpecChange struct {
	// Component it is about; empty when it is about the application as a whole.
	Component string `json:"component,omitempty"`
	// Path of the field within the component; empty for the component itself.
	Path   string `json:"path,omitempty"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// redactedValue stands for what is not shown.
const redactedValue = "(hidden)"

// secretFields are the fields with passwords in them.
var secretFields = []string{"rootPass"}

// componentSections are the fields that say only what a component is, in which everything else is.
var componentSections = []string{"service", "stateful", "job", "database", "deployment", "statefulSet"}

// sectionPath is the path of such a field itself. Only the first one is left out: a service has
// a field service, too.
const sectionPath = "."

// Diff are what is different in another spec.
func Diff(before, after Spec) []SpecChange {
	var d differ
	for _, field := range sortedFields(before, after) {
		switch {
		case field == "components":
			d.diffList("", field, asList(before[field]), asList(after[field]), func(name string) (string, string) { return name, "" })
		case isMap(before[field]) || isMap(after[field]):
			d.diffValue(field, "", before[field], after[field])
		default:
			d.diffValue("", field, before[field], after[field])
		}
	}
	return d.changes
}

type differ struct{ changes []SpecChange }

func (d *differ) add(component, path string, before, after any) {
	if slices.Contains(secretFields, path[strings.LastIndex(path, ".")+1:]) {
		before, after = redact(before), redact(after)
	}
	d.changes = append(d.changes, SpecChange{Component: component, Path: strings.TrimPrefix(path, sectionPath), Before: before, After: after})
}

func redact(value any) any {
	if value == nil {
		return nil
	}
	return redactedValue
}

func (d *differ) diffValue(component, path string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	a, aIsMap := before.(map[string]any)
	b, bIsMap := after.(map[string]any)
	oneSided := aIsMap && after == nil || bIsMap && before == nil
	if aIsMap && bIsMap || oneSided && path != "" && path != sectionPath && !isEntry(path) {
		for _, field := range sortedFields(a, b) {
			d.diffValue(component, joinPath(path, field), a[field], b[field])
		}
		return
	}
	beforeList, afterList := asList(before), asList(after)
	bothLists := (beforeList != nil || before == nil) && (afterList != nil || after == nil) && len(beforeList)+len(afterList) > 0
	if bothLists && uniqueKey(beforeList, afterList) != "" {
		d.diffList(component, path, beforeList, afterList, func(name string) (string, string) { return component, path + "[" + name + "]" })
		return
	}
	d.add(component, path, before, after)
}

// diffList compares lists of named things, entry by entry.
func (d *differ) diffList(component, path string, before, after []any, locate func(name string) (component, path string)) {
	key := uniqueKey(before, after)
	if key == "" {
		d.diffValue(component, path, before, after)
		return
	}
	beforeByKey, afterByKey := entriesByKey(before, key), entriesByKey(after, key)
	for _, name := range entryNames(before, after, key) {
		entryComponent, entryPath := locate(name)
		switch {
		case beforeByKey[name] == nil:
			d.add(entryComponent, entryPath, nil, afterByKey[name])
		case afterByKey[name] == nil:
			d.add(entryComponent, entryPath, beforeByKey[name], nil)
		default:
			d.diffValue(entryComponent, entryPath, beforeByKey[name], afterByKey[name])
		}
	}
}

// sortedFields are those of two maps, sorted; the image first, because it is what people look for.
func sortedFields(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), func(x, y string) int {
		switch {
		case x == y:
			return 0
		case x == "image":
			return -1
		case y == "image":
			return 1
		}
		return strings.Compare(x, y)
	})
}

// entryNames are those of the entries of two lists: those of the second in its order, then what is
// only in the first.
func entryNames(before, after []any, key string) []string {
	var out []string
	for _, entry := range append(slices.Clone(after), before...) {
		if name := fmt.Sprint(entry.(map[string]any)[key]); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func entriesByKey(entries []any, key string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, entry := range entries {
		m := entry.(map[string]any)
		out[fmt.Sprint(m[key])] = m
	}
	return out
}

// uniqueKey is the field that tells the entries of both lists apart, if there is one.
func uniqueKey(lists ...[]any) string {
	for _, key := range []string{"name", "path", "component", "key", "port"} {
		if !slices.ContainsFunc(lists, func(l []any) bool { return !isUniqueKey(l, key) }) {
			return key
		}
	}
	return ""
}

func isUniqueKey(entries []any, key string) bool {
	seen := map[string]bool{}
	for _, entry := range entries {
		m, ok := entry.(map[string]any)
		if !ok || m[key] == nil || seen[fmt.Sprint(m[key])] {
			return false
		}
		seen[fmt.Sprint(m[key])] = true
	}
	return true
}

func asList(value any) []any {
	l, _ := value.([]any)
	return l
}

func isMap(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// isEntry says whether a path leads to an entry of a list, which comes and goes as a whole.
func isEntry(path string) bool { return strings.HasSuffix(path, "]") }

func joinPath(path, field string) string {
	switch {
	case path == "" && slices.Contains(componentSections, field):
		return sectionPath
	case path == "", path == sectionPath:
		return field
	}
	return path + "." + field
}

// String is the change for people, in one line.
func (c SpecChange) String() string {
	if c.Component == "" {
		return c.Describe()
	}
	return c.Component + ": " + c.Describe()
}

// Describe say what changes in the component.
func (c SpecChange) Describe() string {
	path := c.Path
	if path != "" {
		path += " "
	}
	before, after := ShortValue(c.Before), ShortValue(c.After)
	switch {
	case c.Before == nil && after != "" && c.Path != "":
		return path + "set to " + after
	case c.Before == nil:
		return path + "added"
	case c.After == nil && before != "" && c.Path != "":
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

// maxShortValue is what fits beside a path.
const maxShortValue = 80

// ShortValue is a value in a few characters, or nothing if it does not fit.
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

// shortEntry is an entry with one value beside its name, for example a variable.
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

// Redact is a spec without what must not be shown.
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
