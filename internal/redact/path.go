package redact

import "github.com/holdfast-dev/holdfast/internal/objdiff"

// ValueAt redacts a value by its path: env[MODE].value is hidden as it would be within the whole object.
func ValueAt(path objdiff.Path, v any) any {
	if v == nil {
		return nil
	}
	return valueAtPath(path, Value(wrapAtPath(path, v)))
}

// wrapAtPath returns an object with a value at a path.
func wrapAtPath(path objdiff.Path, v any) any {
	switch {
	case len(path) == 0:
		return v
	case path[0].Item:
		return []any{wrapAtPath(path[1:], v)}
	}
	return map[string]any{path[0].Name: wrapAtPath(path[1:], v)}
}

// valueAtPath returns the value at a path, or the placeholder if a parent is hidden.
func valueAtPath(path objdiff.Path, v any) any {
	if len(path) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		return valueAtPath(path[1:], v[path[0].Name])
	case []any:
		if len(v) == 1 {
			return valueAtPath(path[1:], v[0])
		}
	}
	return Placeholder
}
