package edit

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// knownFields are the supported fields of a component. An unknown field can have data that no keep rule
// covers.
var knownFields = []string{"name", "resourceName", "renamedFrom", "dependsOn", "bindings", "service", "stateful", "job", "database"}

// componentTypes are the fields of which a component has exactly one.
var componentTypes = []string{"service", "stateful", "job", "database"}

// applyKeepRules copies the fields that a rollback leaves unchanged from the current spec. rejected
// are the components whose storage change the operator has rejected.
func applyKeepRules(rules []appkind.KeepRule, target, current revision.Spec, rejected []string) {
	withoutRejected := maps.Clone(current)
	withoutRejected["components"] = slices.DeleteFunc(slices.Clone(objectList(current, "components")), func(c any) bool {
		return slices.Contains(rejected, componentName(c))
	})
	for _, r := range rules {
		switch {
		case !r.Storage:
			copyPath(target, current, objdiff.ParsePath(r.Path))
		case !slices.Contains(rejected, r.Component):
			copyPath(target, withoutRejected, objdiff.ParsePath(r.Path))
		}
	}
}

// copyPath copies the value at a path, or deletes it if it is absent.
func copyPath(into, from map[string]any, path objdiff.Path) {
	field, rest := path[0].Name, path[1:]
	switch {
	case len(rest) == 0:
		if value, ok := from[field]; ok {
			into[field] = runtime.DeepCopyJSONValue(value)
		} else {
			delete(into, field)
		}
	case rest[0].Name == objdiff.AnyItem:
		copyItems(into, from, field, rest[1:])
	default:
		nested, _ := into[field].(map[string]any)
		fromNested, ok := from[field].(map[string]any)
		if nested == nil && !ok {
			return
		}
		if nested == nil {
			nested = map[string]any{}
		}
		copyPath(nested, fromNested, rest)
		if into[field] = nested; len(nested) == 0 {
			delete(into, field)
		}
	}
}

// copyItems copies a path within the items of a list. An empty path copies the set of items: items in both
// lists stay unchanged.
func copyItems(into, from map[string]any, field string, path objdiff.Path) {
	key := objdiff.MergeKeys(field, nil)[0]
	if len(path) > 0 {
		for _, item := range objectList(into, field) {
			m := item.(map[string]any)
			if match := findByKey(objectList(from, field), key, m[key]); match != nil {
				copyPath(m, match, path)
			}
		}
		return
	}
	if into[field] == nil && from[field] == nil {
		return
	}
	var out []any
	for _, item := range objectList(from, field) {
		m := item.(map[string]any)
		if match := findByKey(objectList(into, field), key, m[key]); match != nil {
			m = match
		}
		out = append(out, runtime.DeepCopyJSONValue(m))
	}
	into[field] = out
}

// objectList returns the objects of a list field.
func objectList(of map[string]any, field string) []any {
	list, _ := of[field].([]any)
	return slices.DeleteFunc(slices.Clone(list), func(e any) bool {
		_, isMap := e.(map[string]any)
		return !isMap
	})
}

func findByKey(list []any, key string, value any) map[string]any {
	for _, entry := range list {
		if m, ok := entry.(map[string]any); ok && m[key] == value {
			return m
		}
	}
	return nil
}

func componentName(component any) string {
	m, _ := component.(map[string]any)
	n, _ := m["name"].(string)
	return n
}
