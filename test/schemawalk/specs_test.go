package schemawalk

import (
	"encoding/json"
	"slices"
	"strings"
)

// specsWithout returns the specs without the leaf, starting with the smallest removal: if a field is required, its
// parent must be removed.
func (l leaf) specsWithout() []reducedSpec {
	var out []reducedSpec
	for end := len(l.path); end > 0; end-- {
		removed := leaf{path: l.path[:end]}.name()
		if l.requiredAt(end) || inseparableFields.MatchString(removed) {
			continue
		}
		a, _ := l.twoValues()
		spec := l.specWith(a)
		removeField(spec, l.path[:end])
		out = append(out, reducedSpec{spec, removed})
	}
	return out
}

// reducedSpec is a spec and the path that was removed from it.
type reducedSpec struct {
	spec    map[string]any
	removed string
}

// twoValues returns the two values of the leaf.
func (l leaf) twoValues() (a, b any) { return valuesFor(l.hintPath(), l.node) }

// hintPath returns the path for valueHints, which distinguishes fields of a job or service from fields of the stack.
func (l leaf) hintPath() string {
	if within := l.relativePath(); strings.Contains(within, ".") {
		return within
	}
	return strings.TrimPrefix(l.name(), "spec.")
}

// requiredAt reports whether the last segment of a path is required in its object.
func (l leaf) requiredAt(end int) bool {
	n := l.kind.spec
	for _, step := range l.path[:end-1] {
		n = childSchema(n, step)
	}
	return slices.Contains(requiredFields(n), l.path[end-1])
}

// specWith returns the spec in which the leaf has a value.
func (l leaf) specWith(value any) map[string]any {
	spec := l.baseSpec()
	setField(spec, l.kind.spec, l.path, value, "")
	return spec
}

// setField sets a field and the required siblings along its path.
func setField(current any, n *schemaNode, path []string, value any, walked string) any {
	if len(path) == 0 {
		return value
	}
	step := path[0]
	if step == listElement {
		list, _ := current.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = setField(list[0], n.Items.Schema, path[1:], value, walked+listElement)
		return list
	}
	object, _ := current.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	fieldPath := strings.TrimPrefix(walked+"."+step, ".")
	object[step] = setField(object[step], childSchema(n, step), path[1:], value, fieldPath)
	for _, name := range requiredFields(n) {
		if _, exists := object[name]; !exists {
			object[name], _ = valuesFor(strings.TrimPrefix(walked+"."+name, "."), childSchema(n, name))
		}
	}
	return object
}

// removeField removes a field or an element, and also a list that becomes empty.
func removeField(spec map[string]any, path []string) {
	last := path[len(path)-1]
	parent := fieldAt(spec, path[:len(path)-1])
	if last != listElement {
		delete(parent.(map[string]any), last)
		return
	}
	list := parent.([]any)[1:]
	if len(list) == 0 {
		removeField(spec, path[:len(path)-1])
		return
	}
	grandparent := fieldAt(spec, path[:len(path)-2])
	grandparent.(map[string]any)[path[len(path)-2]] = list
}

func fieldAt(value any, path []string) any {
	for _, step := range path {
		if step == listElement {
			value = value.([]any)[0]
			continue
		}
		value = value.(map[string]any)[step]
	}
	return value
}

func cloneSpec(spec map[string]any) map[string]any { return decodeJSON(toJSON(spec)).(map[string]any) }

func toJSON(v any) string {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// withoutSuspend returns a spec without suspend. A suspended object must have the same children, because its pods keep
// running.
func withoutSuspend(spec map[string]any) map[string]any {
	out := cloneSpec(spec)
	delete(out, "suspend")
	return out
}
