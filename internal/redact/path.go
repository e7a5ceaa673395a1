package redact

import "strings"

// ValueAt returns a value as a report may show it, when all that is known is the path that leads to
// it: env[MODE].value is hidden as it would be within the whole object.
func ValueAt(path string, v any) any {
	if v == nil {
		return nil
	}
	return valueAtPath(path, Value(wrapAtPath(path, v)))
}

// wrapAtPath is a value at the end of a path.
func wrapAtPath(path string, v any) any {
	if path == "" {
		return v
	}
	name, key, rest := splitPath(path)
	inner := wrapAtPath(rest, v)
	if key != "" {
		inner = []any{inner}
	}
	return map[string]any{name: inner}
}

// valueAtPath is what a path leads to; what is hidden on the way hides it.
func valueAtPath(path string, v any) any {
	if path == "" {
		return v
	}
	name, key, rest := splitPath(path)
	m, ok := v.(map[string]any)
	if !ok {
		return Placeholder
	}
	inner := m[name]
	if key != "" {
		list, ok := inner.([]any)
		if !ok || len(list) != 1 {
			return Placeholder
		}
		inner = list[0]
	}
	return valueAtPath(rest, inner)
}

// splitPath cuts a path after its first field. A key may have dots in it: files[/etc/app.yaml].content.
func splitPath(path string) (name, key, rest string) {
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, "", ""
	}
	if path[end] == '.' {
		return path[:end], "", path[end+1:]
	}
	name = path[:end]
	key, rest, _ = strings.Cut(path[end+1:], "]")
	return name, key, strings.TrimPrefix(rest, ".")
}
