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

// Change is one difference between two specs. Nothing before means that it was added,
// nothing after that it was removed.
type Change struct {
	// Component it is about; empty when it is about the application as a whole.
	Component string `json:"component,omitempty"`
	// Path of the field within the component; empty for the component itself.
	Path   string `json:"path,omitempty"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// hidden stands for what is not shown.
const hidden = "(hidden)"

// secrets are the fields with passwords in them.
var secrets = []string{"rootPass"}

// sections are the fields that say only what a component is, in which everything else is.
var sections = []string{"service", "stateful", "job", "database", "deployment", "statefulSet"}

// inSection is the path of such a field itself. Only the first one is left out: a service has
// a field service, too.
const inSection = "."

// Changes are what is different in another spec.
func Changes(before, after Spec) []Change {
	var d differ
	for _, field := range fields(before, after) {
		switch {
		case field == "components":
			d.list("", field, list(before[field]), list(after[field]), func(name string) (string, string) { return name, "" })
		case isMap(before[field]) || isMap(after[field]):
			d.value(field, "", before[field], after[field])
		default:
			d.value("", field, before[field], after[field])
		}
	}
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) note(component, path string, before, after any) {
	if slices.Contains(secrets, path[strings.LastIndex(path, ".")+1:]) {
		before, after = hide(before), hide(after)
	}
	d.changes = append(d.changes, Change{Component: component, Path: strings.TrimPrefix(path, inSection), Before: before, After: after})
}

func hide(value any) any {
	if value == nil {
		return nil
	}
	return hidden
}

func (d *differ) value(component, path string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	a, aIsMap := before.(map[string]any)
	b, bIsMap := after.(map[string]any)
	oneSided := aIsMap && after == nil || bIsMap && before == nil
	if aIsMap && bIsMap || oneSided && path != "" && path != inSection && !isEntry(path) {
		for _, field := range fields(a, b) {
			d.value(component, join(path, field), a[field], b[field])
		}
		return
	}
	was, is := list(before), list(after)
	bothLists := (was != nil || before == nil) && (is != nil || after == nil) && len(was)+len(is) > 0
	if bothLists && keyOf(was, is) != "" {
		d.list(component, path, was, is, func(name string) (string, string) { return component, path + "[" + name + "]" })
		return
	}
	d.note(component, path, before, after)
}

// list compares lists of named things, entry by entry.
func (d *differ) list(component, path string, before, after []any, place func(name string) (component, path string)) {
	key := keyOf(before, after)
	if key == "" {
		d.value(component, path, before, after)
		return
	}
	was, is := byKey(before, key), byKey(after, key)
	for _, name := range names(before, after, key) {
		inside, at := place(name)
		switch {
		case was[name] == nil:
			d.note(inside, at, nil, is[name])
		case is[name] == nil:
			d.note(inside, at, was[name], nil)
		default:
			d.value(inside, at, was[name], is[name])
		}
	}
}

// fields are those of two maps, sorted; the image first, because it is what people look for.
func fields(a, b map[string]any) []string {
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

// names are those of the entries of two lists: those of the second in its order, then what is
// only in the first.
func names(before, after []any, key string) []string {
	var out []string
	for _, entry := range append(slices.Clone(after), before...) {
		if name := fmt.Sprint(entry.(map[string]any)[key]); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func byKey(entries []any, key string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, entry := range entries {
		m := entry.(map[string]any)
		out[fmt.Sprint(m[key])] = m
	}
	return out
}

// keyOf is the field that tells the entries of both lists apart, if there is one.
func keyOf(lists ...[]any) string {
	for _, key := range []string{"name", "path", "component", "key", "port"} {
		if !slices.ContainsFunc(lists, func(l []any) bool { return !tellsApart(l, key) }) {
			return key
		}
	}
	return ""
}

func tellsApart(entries []any, key string) bool {
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

func list(value any) []any {
	l, _ := value.([]any)
	return l
}

func isMap(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// isEntry says whether a path leads to an entry of a list, which comes and goes as a whole.
func isEntry(path string) bool { return strings.HasSuffix(path, "]") }

func join(path, field string) string {
	switch {
	case path == "" && slices.Contains(sections, field):
		return inSection
	case path == "", path == inSection:
		return field
	}
	return path + "." + field
}

// String is the change for people, in one line.
func (c Change) String() string {
	if c.Component == "" {
		return c.Words()
	}
	return c.Component + ": " + c.Words()
}

// Words say what changes in the component.
func (c Change) Words() string {
	path := c.Path
	if path != "" {
		path += " "
	}
	before, after := Short(c.Before), Short(c.After)
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
	was, wasText := c.Before.(string)
	is, isText := c.After.(string)
	if wasText && isText {
		return fmt.Sprintf("%schanged, %s -> %s", path, lines(was), lines(is))
	}
	return path + "changed"
}

// maxShort is what fits beside a path.
const maxShort = 80

// Short is a value in a few characters, or nothing if it does not fit.
func Short(value any) string {
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
	if utf8.RuneCountInString(text) > maxShort {
		return ""
	}
	return text
}

// shortEntry is an entry with one value beside its name, for example a variable.
func shortEntry(entry map[string]any) string {
	if value, ok := entry["value"].(string); ok && len(entry) == 2 && entry["name"] != nil {
		return Short(value)
	}
	return ""
}

func lines(text string) string {
	n := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// Redacted is a spec without what must not be shown.
func Redacted(spec Spec) Spec {
	out := Spec{}
	for field, value := range spec {
		switch v := value.(type) {
		case map[string]any:
			value = Redacted(v)
		default:
			if slices.Contains(secrets, field) {
				value = hidden
			}
		}
		out[field] = value
	}
	return out
}
