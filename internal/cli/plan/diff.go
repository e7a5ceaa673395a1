package plan

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Field is a field that changes. What is added has no old value, and what is removed no new
// one; both may be more than one field.
type Field struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
	// Unknown is set when the new value cannot be told: it is made of what only the operator
	// may read.
	Unknown bool `json:"unknown,omitempty"`
}

// diff returns the fields that are different, by path.
func diff(before, after map[string]any) []Field {
	var out []Field
	diffValues("", "", before, after, &out)
	slices.SortFunc(out, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// diffValues goes down for as long as both sides have the same shape. field is the name of the
// list or map that they are in.
func diffValues(path, field string, before, after any, out *[]Field) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(union(b, a))) {
			diffValues(joinPath(path, key), key, b[key], a[key], out)
		}
		return
	case []any:
		a, ok := after.([]any)
		if !ok {
			break
		}
		byKeyBefore, ok := indexByKey(field, b)
		byKeyAfter, alsoOK := indexByKey(field, a)
		if !ok || !alsoOK {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(union(byKeyBefore, byKeyAfter))) {
			diffValues(path+"["+key+"]", field, byKeyBefore[key], byKeyAfter[key], out)
		}
		return
	}
	*out = append(*out, Field{Path: path, Old: before, New: after})
}

func union(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, b)
	return out
}

// joinPath appends a key to a path; one with dots, such as that of a label, in brackets.
func joinPath(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// indexByKey are the elements of a list by their keys, if they have some. The API server merges
// some lists by more than the name, which people would rather read.
func indexByKey(field string, list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, e := range list {
		element, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		keys := ownership.MergeKeys(field, element)
		if len(keys) == 0 {
			return nil, false
		}
		var parts []string
		for _, k := range keys {
			parts = append(parts, fmt.Sprint(element[k]))
		}
		out[strings.Join(parts, "/")] = element
	}
	return out, len(out) == len(list)
}
