package schemawalk

import (
	"encoding/json"
	"slices"
	"strings"
)

// without are the specs in which the leaf is not set, the one that takes away least first:
// where a field is required, what holds it has to go as a whole.
func (l leaf) without() []lack {
	var out []lack
	for end := len(l.path); end > 0; end-- {
		removed := leaf{path: l.path[:end]}.name()
		if l.requiredAt(end) || together.MatchString(removed) {
			continue
		}
		a, _ := l.values()
		spec := l.with(a)
		remove(spec, l.path[:end])
		out = append(out, lack{spec, removed})
	}
	return out
}

// lack is a spec and what was taken out of it.
type lack struct {
	spec    map[string]any
	removed string
}

// values are the two that the leaf is given.
func (l leaf) values() (a, b any) { return values(l.hintPath(), l.node) }

// hintPath tells a field of a job or a service of a stack from one of the stack.
func (l leaf) hintPath() string {
	if within := l.within(); strings.Contains(within, ".") {
		return within
	}
	return strings.TrimPrefix(l.name(), "spec.")
}

// requiredAt says whether the step that ends a path cannot be left out of its object.
func (l leaf) requiredAt(end int) bool {
	n := l.kind.spec
	for _, step := range l.path[:end-1] {
		n = below(n, step)
	}
	return slices.Contains(required(n), l.path[end-1])
}

// with is the spec in which the leaf has a value.
func (l leaf) with(value any) map[string]any {
	spec := l.start()
	put(spec, l.kind.spec, l.path, value, "")
	return spec
}

// put sets a field and, on the way, what is required beside it.
func put(at any, n *node, path []string, value any, walked string) any {
	if len(path) == 0 {
		return value
	}
	step := path[0]
	if step == element {
		list, _ := at.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = put(list[0], n.Items.Schema, path[1:], value, walked+element)
		return list
	}
	object, _ := at.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	inside := strings.TrimPrefix(walked+"."+step, ".")
	object[step] = put(object[step], below(n, step), path[1:], value, inside)
	for _, name := range required(n) {
		if _, there := object[name]; !there {
			object[name], _ = values(strings.TrimPrefix(walked+"."+name, "."), below(n, name))
		}
	}
	return object
}

// remove takes a field or an element away; a list without elements goes, too.
func remove(spec map[string]any, path []string) {
	last := path[len(path)-1]
	holder := at(spec, path[:len(path)-1])
	if last != element {
		delete(holder.(map[string]any), last)
		return
	}
	list := holder.([]any)[1:]
	if len(list) == 0 {
		remove(spec, path[:len(path)-1])
		return
	}
	outer := at(spec, path[:len(path)-2])
	outer.(map[string]any)[path[len(path)-2]] = list
}

func at(value any, path []string) any {
	for _, step := range path {
		if step == element {
			value = value.([]any)[0]
			continue
		}
		value = value.(map[string]any)[step]
	}
	return value
}

func clone(spec map[string]any) map[string]any { return decode(text(spec)).(map[string]any) }

func text(v any) string {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// awake is a spec without suspend: what runs keeps running, so a suspended object has the
// children that it would have otherwise.
func awake(spec map[string]any) map[string]any {
	out := clone(spec)
	delete(out, "suspend")
	components, _ := out["components"].([]any)
	for _, c := range components {
		delete(c.(map[string]any), "suspend")
	}
	return out
}
