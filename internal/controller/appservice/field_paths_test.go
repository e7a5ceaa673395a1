package appservice_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// field is an applied field of a child with its expected value. Its path consists of names, and of keys for list
// elements.
type field struct {
	path []any
	want any
}

type elementKeys map[string]any

func (f field) String() string {
	var b strings.Builder
	for _, step := range f.path {
		switch s := step.(type) {
		case string:
			b.WriteString("." + s)
		case elementKeys:
			if s["uid"] != nil { // differs between runs
				b.WriteString("[ours]")
				continue
			}
			values := make([]string, 0, len(s))
			for _, k := range slices.Sorted(maps.Keys(s)) {
				values = append(values, fmt.Sprint(s[k]))
			}
			b.WriteString("[" + strings.Join(values, " ") + "]")
		}
	}
	return b.String()[1:]
}

// listMapKeys are the keys of the lists of which Holdfast owns single elements.
var listMapKeys = map[string][]string{
	"containers": {"name"}, "env": {"name"}, "imagePullSecrets": {"name"}, "ownerReferences": {"uid"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
}

func keysForList(name string, element map[string]any) []string {
	if name != "ports" {
		return listMapKeys[name]
	}
	if _, ok := element["containerPort"]; ok {
		return []string{"containerPort", "protocol"}
	}
	return []string{"port", "protocol"}
}

// fieldsOf returns the fields of an apply configuration that another client could change: all fields except keys, and
// every list element.
func fieldsOf(config map[string]any) []field {
	delete(config, "apiVersion")
	delete(config, "kind")
	metadata := config["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "resourceVersion", "uid"} {
		delete(metadata, name)
	}
	return walk(nil, "", config, nil)
}

func walk(path []any, name string, value any, keys []string) []field {
	path = slices.Clip(path)
	switch v := value.(type) {
	case map[string]any:
		var all []field
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(keys, k) {
				all = append(all, walk(append(path, k), k, v[k], nil)...)
			}
		}
		return all
	case []any:
		var all []field
		for _, e := range v {
			element, ok := e.(map[string]any)
			keys := keysForList(name, element)
			if !ok || len(keys) == 0 {
				return []field{{path, value}}
			}
			found := elementKeys{}
			for _, k := range keys {
				found[k] = element[k]
			}
			elementPath := slices.Concat(path, []any{found})
			all = append(all, field{elementPath, element})
			all = append(all, walk(elementPath, "", element, keys)...)
		}
		return all
	}
	return []field{{path, value}}
}

func (f field) valueIn(object map[string]any) any {
	var current any = object
	for _, step := range f.path {
		switch s := step.(type) {
		case string:
			current = asMap(current)[s]
		case elementKeys:
			current = findElement(current, s)
		}
	}
	return current
}

// setIn replaces the field in an object, or removes it when value is nil. It reports whether the object changed.
func (f field) setIn(object map[string]any, value any) bool {
	parent := field{path: f.path[:len(f.path)-1]}
	switch s := f.path[len(f.path)-1].(type) {
	case string:
		parentMap := asMap(parent.valueIn(object))
		if parentMap == nil {
			return false
		}
		was := parentMap[s]
		parentMap[s] = value
		if value == nil {
			delete(parentMap, s)
		}
		return fmt.Sprint(was) != fmt.Sprint(value)
	case elementKeys:
		list, _ := parent.valueIn(object).([]any)
		rest := slices.DeleteFunc(slices.Clone(list), func(e any) bool { return isElement(e, s) })
		grandparent := asMap(field{path: f.path[:len(f.path)-2]}.valueIn(object))
		grandparent[f.path[len(f.path)-2].(string)] = rest
		return len(rest) < len(list)
	}
	return false
}

// includes reports whether a field has the expected value; a list element may have additional fields.
func includes(got, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return fmt.Sprint(got) == fmt.Sprint(want)
	}
	g := asMap(got)
	for k, v := range w {
		if list, ok := v.([]any); ok && len(list) > 0 && len(keysForList(k, asMap(list[0]))) > 0 {
			continue // its elements are separate fields
		}
		if !includes(g[k], v) {
			return false
		}
	}
	return got != nil
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func findElement(list any, keys elementKeys) any {
	all, _ := list.([]any)
	for _, e := range all {
		if isElement(e, keys) {
			return e
		}
	}
	return nil
}

func isElement(e any, keys elementKeys) bool {
	for k, v := range keys {
		if fmt.Sprint(asMap(e)[k]) != fmt.Sprint(v) {
			return false
		}
	}
	return true
}

// appliedConfigs returns the last apply configuration of each resource that the operator sent for this AppService.
func (w *world) appliedConfigs(calls audit.Events) map[string]map[string]any {
	w.Helper()
	bodies := map[string]map[string]any{}
	for _, e := range calls.Writes().Of("deployments.apps", "services") {
		if e.Verb != "patch" || e.ObjectRef.Name != w.name {
			continue
		}
		body := map[string]any{}
		w.Expect(json.Unmarshal(e.RequestObject, &body)).To(Succeed())
		bodies[e.Resource()] = body
	}
	return bodies
}
