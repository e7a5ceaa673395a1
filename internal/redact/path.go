package redact

import "strings"

// At returns a value as a report may show it, when all that is known is the path that leads to
// it: env[MODE].value is hidden as it would be within the whole object.
func At(path string, v any) any {
	if v == nil {
		return nil
	}
	return dig(path, Value(nest(path, v)))
}

// nest is a value at the end of a path.
func nest(path string, v any) any {
	if path == "" {
		return v
	}
	name, key, rest := first(path)
	inner := nest(rest, v)
	if key != "" {
		inner = []any{inner}
	}
	return map[string]any{name: inner}
}

// dig is what a path leads to; what is hidden on the way hides it.
func dig(path string, v any) any {
	if path == "" {
		return v
	}
	name, key, rest := first(path)
	m, ok := v.(map[string]any)
	if !ok {
		return Hidden
	}
	inner := m[name]
	if key != "" {
		list, ok := inner.([]any)
		if !ok || len(list) != 1 {
			return Hidden
		}
		inner = list[0]
	}
	return dig(rest, inner)
}

// first cuts a path after its first field. A key may have dots in it: files[/etc/app.yaml].content.
func first(path string) (name, key, rest string) {
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
