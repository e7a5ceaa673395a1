package fieldmanager

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// Merge predicts the result of applying want to live without the API server: defaults of new fields
// and changes by webhooks are missing. live must have its managedFields: fields that we owned and
// no longer declare are removed, and so are conflicting fields.
func Merge(manager string, want map[string]any, live Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live.DeepCopyObject())
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	var removed []fieldpath.Path
	for _, c := range unionConflictsIn(nil, "", want, content) {
		removed = append(removed, c.Path)
	}
	ours, theirs, err := managedFieldSets(manager, live)
	if err != nil {
		return nil, err
	}
	ours.Iterate(func(path fieldpath.Path) {
		for n := 1; n <= len(path); n++ {
			// Including parents and their defaults, unless other managers own fields below.
			if prefix := path[:n]; !hasPath(want, prefix) && !hasBelow(theirs, prefix) {
				removed = append(removed, prefix.Copy())
				return
			}
		}
	})
	for _, path := range removed {
		removePath(content, path)
	}
	return merge("", want, content).(map[string]any), nil
}

// managedFieldSets returns the fields that we own, and those of all other managers.
func managedFieldSets(manager string, live Object) (ours, theirs *fieldpath.Set, err error) {
	ours, theirs = fieldpath.NewSet(), fieldpath.NewSet()
	for _, entry := range live.GetManagedFields() {
		set, err := entryFields(entry)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", live.GetName(), err)
		}
		if isAppliedBy(manager, entry) {
			ours = ours.Union(set)
			continue
		}
		theirs = theirs.Union(set)
	}
	return ours, theirs, nil
}

func merge(field string, want, live any) any {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok || atomicMaps[field] {
			return want
		}
		for k, v := range w {
			l[k] = merge(k, v, l[k])
		}
		return l
	case []any:
		l, ok := live.([]any)
		if !ok || len(w) == 0 {
			return want
		}
		first, ok := w[0].(map[string]any)
		if !ok || len(objdiff.MergeKeys(field, first)) == 0 {
			return want
		}
		for _, e := range w {
			element := e.(map[string]any)
			keys := objdiff.MergeKeys(field, element)
			i := slices.IndexFunc(l, func(o any) bool { return sameKeys(keys, element, o.(map[string]any)) })
			if i < 0 {
				l = append(l, element)
				continue
			}
			l[i] = merge(field, element, l[i])
		}
		return l
	}
	return want
}

// hasBelow reports whether a set contains a path or a path below it.
func hasBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	next, ok := set.Children.Get(path[0])
	if len(path) == 1 {
		return set.Members.Has(path[0]) || ok && !next.Empty()
	}
	return ok && hasBelow(next, path[1:])
}

// hasPath reports whether there is a value at a path.
func hasPath(value any, path fieldpath.Path) bool {
	if len(path) == 0 {
		return true
	}
	switch node := value.(type) {
	case map[string]any:
		if path[0].FieldName == nil {
			return false
		}
		next, ok := node[*path[0].FieldName]
		return ok && hasPath(next, path[1:])
	case []any:
		i := indexOf(node, path[0])
		return i >= 0 && hasPath(node[i], path[1:])
	}
	return false
}

// removePath removes the value at a path.
func removePath(value any, path fieldpath.Path) any {
	switch node := value.(type) {
	case map[string]any:
		if name := path[0].FieldName; name != nil {
			if next, ok := node[*name]; ok && len(path) > 1 {
				node[*name] = removePath(next, path[1:])
			} else {
				delete(node, *name)
			}
		}
	case []any:
		i := indexOf(node, path[0])
		switch {
		case i < 0:
		case len(path) > 1:
			node[i] = removePath(node[i], path[1:])
		default:
			return slices.Delete(node, i, i+1)
		}
	}
	return value
}

// indexOf returns the index of the list element that a path element selects, or -1.
func indexOf(list []any, element fieldpath.PathElement) int {
	return slices.IndexFunc(list, func(e any) bool {
		if element.Value != nil {
			return fmt.Sprint((*element.Value).Unstructured()) == fmt.Sprint(e)
		}
		m, ok := e.(map[string]any)
		if !ok || element.Key == nil {
			return false
		}
		for _, k := range *element.Key {
			if fmt.Sprint(m[k.Name]) != fmt.Sprint(k.Value.Unstructured()) {
				return false
			}
		}
		return true
	})
}
