package plan

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// Field is a changed field. Added fields have no old value, removed fields no new value. A value can be an
// object or list.
type Field struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
	// Unknown is set if the new value depends on data that only the operator can read.
	Unknown bool `json:"unknown,omitempty"`
}

// diff returns the changed fields, sorted by path. An atomic list is one value, because an apply replaces
// it.
func diff(before, after map[string]any) []Field {
	var out []Field
	for _, c := range objdiff.Diff(before, after, func(objdiff.Path) bool { return true }) {
		out = append(out, Field{Path: c.Path.String(), Old: c.Old, New: c.New})
	}
	slices.SortFunc(out, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
