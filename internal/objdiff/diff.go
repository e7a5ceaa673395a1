// Package objdiff compares objects field by field. It has field paths, keys of list items, differences and
// the managers that caused them.
package objdiff

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Types of changes.
const (
	Set     = "Set"
	Changed = "Changed"
	Removed = "Removed"
)

// FieldChange is the difference of one field.
type FieldChange struct {
	Path Path   `json:"path"`
	Type string `json:"change"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
	// Redacted is set when secret values are omitted.
	Redacted bool `json:"redacted,omitempty"`
}

// Diff returns the differences of two values in field order. Items that only after contains follow the
// items of before.
//
// By default every value is split into its leaves, so that each change can be redacted by its path. If
// whole returns true for the path of a value that exists on one side only, or of a list without merge
// keys, the value is one change. If whole is not nil, a list whose items cannot be distinguished is one
// change as well, and the order of items is ignored.
func Diff(before, after any, whole func(Path) bool) []FieldChange {
	d := differ{whole: whole}
	if !reflect.DeepEqual(before, after) {
		d.compare(nil, before, after)
	}
	return d.changes
}

type differ struct {
	whole   func(Path) bool
	changes []FieldChange
}

// absent is the value of a field that does not exist, as opposed to null.
type absent struct{}

func (d *differ) mayBeWhole(at Path) bool { return d.whole != nil && d.whole(at) }

// descend compares the values of one step below a path. It builds the path only for values that differ.
func (d *differ) descend(at Path, step Step, before, after any) {
	if !reflect.DeepEqual(before, after) {
		d.compare(at.append(step), before, after)
	}
}

// compare compares values that differ.
func (d *differ) compare(at Path, before, after any) {
	oneSided := before == (absent{}) || after == (absent{})
	isLeaf := shape(before) == leaf && shape(after) == leaf
	switch mixed := !oneSided && reflect.TypeOf(before) != reflect.TypeOf(after); {
	case isLeaf, oneSided && d.mayBeWhole(at), mixed && d.whole != nil:
		d.add(at, before, after)
		return
	case mixed:
		d.compare(at, before, absent{})
		d.compare(at, absent{}, after)
		return
	}
	if max(shape(before), shape(after)) == list {
		d.compareLists(at, before, after)
		return
	}
	b, _ := before.(map[string]any)
	a, _ := after.(map[string]any)
	for _, key := range unionKeys(b, a) {
		d.descend(at, Step{Name: key}, valueOrAbsent(b, key), valueOrAbsent(a, key))
	}
}

const (
	leaf = iota // including empty maps, and lists of plain values
	list
	object
)

func shape(v any) int {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			return object
		}
	case []any:
		if slices.ContainsFunc(v, func(item any) bool { return shape(item) != leaf }) {
			return list
		}
	}
	return leaf
}

// compareLists compares items with the same key, so that an insertion does not change the following items.
func (d *differ) compareLists(at Path, before, after any) {
	b, _ := before.([]any)
	a, _ := after.([]any)
	var field string
	if last := at.Last(); !last.Item {
		field = last.Name
	}
	keys := itemKeys(field, !d.mayBeWhole(at), b, a)
	if keys == nil {
		if d.whole != nil {
			d.add(at, before, after)
			return
		}
		for i := range max(len(b), len(a)) {
			d.descend(at, Step{strconv.Itoa(i), true}, itemOrAbsent(b, i), itemOrAbsent(a, i))
		}
		return
	}
	oldItems, oldOrder := indexByKey(keys, b)
	newItems, newOrder := indexByKey(keys, a)
	for _, key := range oldOrder {
		d.descend(at, Step{key, true}, oldItems[key], valueOrAbsent(newItems, key))
	}
	for _, key := range newOrder {
		if !has(oldItems, key) {
			d.descend(at, Step{key, true}, absent{}, newItems[key])
		}
	}
	if d.whole == nil {
		if was, is := itemsIn(newItems, oldOrder), itemsIn(oldItems, newOrder); !slices.Equal(was, is) {
			d.add(at, was, is)
		}
	}
}

// itemsIn returns the keys that the other list also contains.
func itemsIn(other map[string]any, order []string) []any {
	var out []any
	for _, key := range order {
		if has(other, key) {
			out = append(out, key)
		}
	}
	return out
}

func indexByKey(keys []string, items []any) (byKey map[string]any, order []string) {
	byKey = make(map[string]any, len(items))
	for _, item := range items {
		key, _ := itemKey(keys, item)
		byKey[key] = item
		order = append(order, key)
	}
	return byKey, order
}

func (d *differ) add(at Path, before, after any) {
	c := FieldChange{Path: at, Type: Changed, Old: before, New: after}
	if before == (absent{}) {
		c.Type, c.Old = Set, nil
	}
	if after == (absent{}) {
		c.Type, c.New = Removed, nil
	}
	d.changes = append(d.changes, c)
}

func unionKeys(a, b map[string]any) []string {
	keys := slices.AppendSeq(make([]string, 0, max(len(a), len(b))), maps.Keys(a))
	for k := range b {
		if !has(a, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

func valueOrAbsent(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

func itemOrAbsent(items []any, i int) any {
	if i < len(items) {
		return items[i]
	}
	return absent{}
}
