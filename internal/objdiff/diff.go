// Package objdiff says what became of an object between two states, field by field, and who made
// it so. The plugin's watch and the center's history tell it.
//
// Safety rule: nothing that holds other fields is ever shown as a whole, and no value of a Secret
// or a password at all.
package objdiff

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// What became of a field.
const (
	Set     = "Set"
	Changed = "Changed"
	Removed = "Removed"
)

// FieldChange is what became of one field of an object.
type FieldChange struct {
	Path string `json:"path"`
	Type string `json:"change"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
	// Redacted fields have values that are nobody's business.
	Redacted bool `json:"redacted,omitempty"`

	segments []segment
}

// segment is one step of a path: a field, or an item of a list.
type segment struct {
	key  string
	item bool
}

// absent is the value of a field that is not there; null is another one.
type absent struct{}

// ignoredPaths changes with every write or repeats what is said beside the fields.
var ignoredPaths = map[string]bool{
	"apiVersion": true, "kind": true,
	"metadata.managedFields": true, "metadata.resourceVersion": true, "metadata.generation": true,
	"metadata.name": true, "metadata.namespace": true, "metadata.uid": true, "metadata.creationTimestamp": true, "metadata.selfLink": true,
}

// Diff are the differences of two objects of a kind, field by field in the order of
// their paths. A nil object has no fields.
func Diff(kind string, before, after map[string]any) []FieldChange {
	c := comparison{kind: kind}
	c.walk(nil, objectOrAbsent(before), objectOrAbsent(after))
	return c.changes
}

func objectOrAbsent(object map[string]any) any {
	if object == nil {
		return absent{}
	}
	return object
}

type comparison struct {
	kind    string
	changes []FieldChange
}

// walk goes down to what cannot be taken apart. Nothing that holds other fields is ever
// shown as a whole: one of them may have to be redacted.
func (c *comparison) walk(at []segment, before, after any) {
	if reflect.DeepEqual(before, after) || ignoredPaths[formatPath(at)] {
		return
	}
	if before != (absent{}) && after != (absent{}) && reflect.TypeOf(before) != reflect.TypeOf(after) &&
		(shape(before) != shapeLeaf || shape(after) != shapeLeaf) {
		c.walk(at, before, absent{})
		c.walk(at, absent{}, after)
		return
	}
	switch max(shape(before), shape(after)) {
	case shapeMap:
		b, _ := before.(map[string]any)
		a, _ := after.(map[string]any)
		for _, key := range unionKeys(b, a) {
			c.walk(appendSegment(at, segment{key: key}), valueOrAbsent(b, key), valueOrAbsent(a, key))
		}
	case shapeList:
		b, _ := before.([]any)
		a, _ := after.([]any)
		c.diffList(at, b, a)
	default:
		c.addChange(at, before, after)
	}
}

const (
	shapeLeaf = iota // also what is absent, and lists of plain values, which are read as one
	shapeList
	shapeMap
)

func shape(v any) int {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			return shapeMap
		}
	case []any:
		if slices.ContainsFunc(v, func(item any) bool { return shape(item) != shapeLeaf }) {
			return shapeList
		}
	}
	return shapeLeaf
}

// diffList compares items that have a name by it, so that an insertion is not a change of all
// that follow; others by their place.
func (c *comparison) diffList(at []segment, before, after []any) {
	key := listKey(before, after)
	if key == "" {
		for i := range max(len(before), len(after)) {
			c.walk(appendSegment(at, segment{fmt.Sprint(i), true}), itemOrAbsent(before, i), itemOrAbsent(after, i))
		}
		return
	}
	b, order := indexByKey(key, before)
	a, newOrder := indexByKey(key, after)
	both := slices.Concat(order, newOrder)
	for i, name := range both {
		if i < len(order) || !has(b, name) {
			c.walk(appendSegment(at, segment{key + "=" + name, true}), valueOrAbsent(b, name), valueOrAbsent(a, name))
		}
	}
	inBoth := func(names []string) []any {
		var out []any
		for _, n := range names {
			if has(b, n) && has(a, n) {
				out = append(out, n)
			}
		}
		return out
	}
	if old, now := inBoth(order), inBoth(newOrder); !reflect.DeepEqual(old, now) {
		c.addChange(appendSegment(at, segment{"order", true}), old, now)
	}
}

// listKeyCandidates are what tells the items of Kubernetes' lists apart, the best one first.
var listKeyCandidates = []string{"name", "mountPath", "type", "key", "containerPort", "port", "uid", "ip"}

// listKey is the field that tells all items of two lists apart; empty if there is none.
func listKey(lists ...[]any) string {
	for _, key := range listKeyCandidates {
		if !slices.ContainsFunc(lists, func(list []any) bool { return !isUniqueKey(key, list) }) {
			return key
		}
	}
	return ""
}

func isUniqueKey(key string, list []any) bool {
	seen := map[string]bool{}
	for _, i := range list {
		m, ok := i.(map[string]any)
		if !ok || m[key] == nil || shape(m[key]) != shapeLeaf || seen[fmt.Sprint(m[key])] {
			return false
		}
		seen[fmt.Sprint(m[key])] = true
	}
	return true
}

func indexByKey(key string, list []any) (items map[string]any, order []string) {
	items = map[string]any{}
	for _, i := range list {
		name := fmt.Sprint(i.(map[string]any)[key])
		items[name] = i
		order = append(order, name)
	}
	return items, order
}

func (c *comparison) addChange(at []segment, before, after any) {
	f := FieldChange{Path: formatPath(at), Type: Changed, Redacted: isSecretPath(c.kind, at), segments: at}
	if before == (absent{}) {
		f.Type, before = Set, nil
	}
	if after == (absent{}) {
		f.Type, after = Removed, nil
	}
	if !f.Redacted {
		f.Old, f.New = before, after
	}
	c.changes = append(c.changes, f)
}

// isSecretPath says whether values at a path are secret. Annotations of what holds a secret are,
// too: kubectl apply and others keep a copy of the whole object there. Ours do not.
func isSecretPath(kind string, at []segment) bool {
	if slices.Contains(at, segment{key: "rootPass"}) {
		return true
	}
	if kind != "Secret" && kind != "CloudManager" || len(at) == 0 {
		return false
	}
	if at[0].key == "metadata" {
		return len(at) > 2 && at[1].key == "annotations" && !strings.HasPrefix(at[2].key, appsapi.GroupVersion.Group+"/")
	}
	return kind == "Secret" && at[0].key != "type" && at[0].key != "immutable"
}

var plainKeyPattern = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// formatPath writes a path as one would in a jsonpath, with the names of items where they have one.
func formatPath(at []segment) string {
	var b strings.Builder
	for i, s := range at {
		switch {
		case s.item:
			b.WriteString("[" + s.key + "]")
		case !plainKeyPattern.MatchString(s.key):
			b.WriteString("['" + s.key + "']")
		case i > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}

func appendSegment(at []segment, next segment) []segment { return append(slices.Clip(at), next) }

func unionKeys(a, b map[string]any) []string {
	var all []string
	for k := range a {
		all = append(all, k)
	}
	for k := range b {
		if !has(a, k) {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

func valueOrAbsent(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

func itemOrAbsent(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}
