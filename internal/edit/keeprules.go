package edit

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// keepRule is a field that going back leaves as it is now. In a path, components[componentName] stands for
// each component, matched by its name; a path that ends so keeps which entries there are.
type keepRule struct {
	path string
	// storage rules do not hold for what the operator has refused: nothing of it exists.
	storage bool
}

// keepRules is everything that going back must not change: what volumes are, the data format that
// a database server has brought them to, how they are opened, and what somebody has asked to
// be done once. A new kind of component with data gets its lines here, and its name in known.
//
// Fields beside those that a revision remembers, such as deletionPolicy and suspend, are not
// touched anyway. An image is restored where it is a program's; not where it is a database's,
// which must never be started with an older version than its files.
var keepRules = map[string][]keepRule{
	"AppStack": {
		{path: "components[name].suspend"},
		{path: "components[name].service.update.restartedAt"},
		{path: "components[name].stateful.update.restartedAt"},
		{path: "components[name].stateful.credentials[key].secretRef"},
		{path: "components[name].stateful.storage[name]", storage: true},
		{path: "components[name].stateful.storage[name].size", storage: true},
		{path: "components[name].stateful.storage[name].className", storage: true},
		{path: "components[name].stateful.storage[name].accessMode", storage: true},
		{path: "components[name].database.version"},
		{path: "components[name].database.image"},
		{path: "components[name].database.database"},
		{path: "components[name].database.rootPasswordSecretRef"},
		{path: "components[name].database.passwordSecretRef"},
		{path: "components[name].database.rotation"},
		{path: "components[name].database.update.restartedAt"},
		{path: "components[name].database.storage", storage: true},
	},
	"CloudManager": {
		{path: "db.rootPass"},
		{path: "db.rootPasswordSecretRef"},
		{path: "db.rotation"},
		{path: "db.statefulSet.image"},
		{path: "db.statefulSet.storage", storage: true},
	},
}

// knownFields are the fields of a component. With one that is not known there may be data that no
// rule is about.
var knownFields = []string{"name", "resourceName", "renamedFrom", "dependsOn", "bindings", "suspend", "service", "stateful", "job", "database"}

// componentTypes are those of them of which a component has exactly one.
var componentTypes = []string{"service", "stateful", "job", "database"}

// applyKeepRules makes a spec have what it has now wherever a rule says so. refused are the components
// whose storage is not kept.
func applyKeepRules(kind string, target, now revisions.Spec, rejected []string) {
	for _, r := range keepRules[kind] {
		if r.storage && kind == "CloudManager" && slices.Contains(rejected, "db") {
			continue
		}
		from := now
		if r.storage && kind == "AppStack" {
			from = maps.Clone(now)
			from["components"] = slices.DeleteFunc(slices.Clone(objectList(now, "components")), func(c any) bool {
				return slices.Contains(rejected, componentName(c))
			})
		}
		copyPath(target, from, strings.Split(r.path, "."))
	}
}

// copyPath copies what a path leads to, and its absence.
func copyPath(into, from map[string]any, path []string) {
	field, key, isList := strings.Cut(strings.TrimSuffix(path[0], "]"), "[")
	switch last := len(path) == 1; {
	case isList && last:
		copyEntryList(into, from, field, key)
	case isList:
		for _, entry := range objectList(into, field) {
			if match := findByKey(objectList(from, field), key, entry.(map[string]any)[key]); match != nil {
				copyPath(entry.(map[string]any), match, path[1:])
			}
		}
	case last:
		if value, ok := from[field]; ok {
			into[field] = runtime.DeepCopyJSONValue(value)
		} else {
			delete(into, field)
		}
	default:
		nested, _ := into[field].(map[string]any)
		fromNested, ok := from[field].(map[string]any)
		if nested == nil && !ok {
			return
		}
		if nested == nil {
			nested = map[string]any{}
		}
		copyPath(nested, fromNested, path[1:])
		if into[field] = nested; len(nested) == 0 {
			delete(into, field)
		}
	}
}

// copyEntryList keeps which entries a list has. Those that are there in both are taken as they
// are in into.
func copyEntryList(into, from map[string]any, field, key string) {
	if into[field] == nil && from[field] == nil {
		return
	}
	var out []any
	for _, entry := range objectList(from, field) {
		m := entry.(map[string]any)
		if match := findByKey(objectList(into, field), key, m[key]); match != nil {
			m = match
		}
		out = append(out, runtime.DeepCopyJSONValue(m))
	}
	into[field] = out
}

// objectList are the objects of a list.
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
