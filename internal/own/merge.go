package own

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
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live.DeepCopyObject())
	if err != nil {
		return nil, fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	gone := rivalPaths(nil, "", want, all)
	ours, theirs, err := books(live)
	if err != nil {
		return nil, err
	}
	ours.Iterate(func(path fieldpath.Path) {
		for n := 1; n <= len(path); n++ {
			// With its parents, and what was added to them by default, unless others have a say
			// in them.
			if begin := path[:n]; !has(want, begin) && !anyBelow(theirs, begin) {
				gone = append(gone, begin.Copy())
				return
			}
		}
	})
	for _, path := range gone {
		remove(all, path)
	}
	return merge("", want, all).(map[string]any), nil
}

// books are the fields that are ours in an object, and those of all others.
func books(live Object) (ours, theirs *fieldpath.Set, err error) {
	ours, theirs = fieldpath.NewSet(), fieldpath.NewSet()
	for _, page := range live.GetManagedFields() {
		set := fieldpath.NewSet()
		if page.FieldsV1 == nil {
			continue
		}
		if err := set.FromJSON(page.FieldsV1.GetRawReader()); err != nil {
			return nil, nil, fmt.Errorf("read the fields of %s in %s: %w", page.Manager, live.GetName(), err)
		}
		if page.Manager == appsapi.FieldManager && page.Operation == metav1.ManagedFieldsOperationApply && page.Subresource == "" {
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
		if !ok || whole[field] {
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
		if !ok || len(Keys(field, first)) == 0 {
			return want
		}
		for _, e := range w {
			element := e.(map[string]any)
			keys := Keys(field, element)
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

// anyBelow says whether a set has something at a path or below it.
func anyBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	next, ok := set.Children.Get(path[0])
	if len(path) == 1 {
		return set.Members.Has(path[0]) || ok && !next.Empty()
	}
	return ok && anyBelow(next, path[1:])
}

// has says whether there is a value at a path.
func has(in any, path fieldpath.Path) bool {
	if len(path) == 0 {
		return true
	}
	switch at := in.(type) {
	case map[string]any:
		if path[0].FieldName == nil {
			return false
		}
		next, ok := at[*path[0].FieldName]
		return ok && has(next, path[1:])
	case []any:
		i := find(at, path[0])
		return i >= 0 && has(at[i], path[1:])
	}
	return false
}

// remove takes away what is at a path.
func remove(in any, path fieldpath.Path) any {
	switch at := in.(type) {
	case map[string]any:
		if name := path[0].FieldName; name != nil {
			if next, ok := at[*name]; ok && len(path) > 1 {
				at[*name] = remove(next, path[1:])
			} else {
				delete(at, *name)
			}
		}
	case []any:
		i := find(at, path[0])
		switch {
		case i < 0:
		case len(path) > 1:
			at[i] = remove(at[i], path[1:])
		default:
			return slices.Delete(at, i, i+1)
		}
	}
	return in
}

// find is the index of the element of a list that a path leads to, or -1.
func find(list []any, element fieldpath.PathElement) int {
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
