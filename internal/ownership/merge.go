package ownership

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Merge says what an apply of want would make of live, as far as that can be known without
// the API server: defaults of fields that are new, and what webhooks add, are missing. live
// must have its managedFields: what we held and do not want any more goes, and so do rivals.
func Merge(want map[string]any, live Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live.DeepCopyObject())
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	removed := unionConflictPaths(nil, "", want, content)
	ours, theirs, err := managedFieldSets(live)
	if err != nil {
		return nil, err
	}
	ours.Iterate(func(path fieldpath.Path) {
		for n := 1; n <= len(path); n++ {
			// With its parents, and what was added to them by default, unless others have a say
			// in them.
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

// managedFieldSets are the fields that are ours in an object, and those of all others.
func managedFieldSets(live Object) (ours, theirs *fieldpath.Set, err error) {
	ours, theirs = fieldpath.NewSet(), fieldpath.NewSet()
	for _, entry := range live.GetManagedFields() {
		set := fieldpath.NewSet()
		if entry.FieldsV1 == nil {
			continue
		}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, nil, fmt.Errorf("read the fields of %s in %s: %w", entry.Manager, live.GetName(), err)
		}
		if entry.Manager == appsapi.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
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
		if !ok || len(MergeKeys(field, first)) == 0 {
			return want
		}
		for _, e := range w {
			element := e.(map[string]any)
			keys := MergeKeys(field, element)
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

// hasBelow says whether a set has something at a path or below it.
func hasBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	next, ok := set.Children.Get(path[0])
	if len(path) == 1 {
		return set.Members.Has(path[0]) || ok && !next.Empty()
	}
	return ok && hasBelow(next, path[1:])
}

// hasPath says whether there is a value at a path.
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

// removePath takes away what is at a path.
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

// indexOf is the index of the element of a list that a path leads to, or -1.
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
