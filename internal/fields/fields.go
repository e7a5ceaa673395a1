// Package fields says what became of an object between two states, field by field, and who made
// it so. The plugin's watch and the center's history tell it.
//
// Safety rule: nothing that holds other fields is ever shown as a whole, and no value of a Secret
// or a password at all.
package fields

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

// Field is what became of one field of an object.
type Field struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	Old    any    `json:"old,omitempty"`
	New    any    `json:"new,omitempty"`
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

// noise changes with every write or repeats what is said beside the fields.
var noise = map[string]bool{
	"apiVersion": true, "kind": true,
	"metadata.managedFields": true, "metadata.resourceVersion": true, "metadata.generation": true,
	"metadata.name": true, "metadata.namespace": true, "metadata.uid": true, "metadata.creationTimestamp": true, "metadata.selfLink": true,
}

// Between are the differences of two objects of a kind, field by field in the order of
// their paths. A nil object has no fields.
func Between(kind string, before, after map[string]any) []Field {
	c := comparison{kind: kind}
	c.walk(nil, orAbsent(before), orAbsent(after))
	return c.fields
}

func orAbsent(object map[string]any) any {
	if object == nil {
		return absent{}
	}
	return object
}

type comparison struct {
	kind   string
	fields []Field
}

// walk goes down to what cannot be taken apart. Nothing that holds other fields is ever
// shown as a whole: one of them may have to be redacted.
func (c *comparison) walk(at []segment, before, after any) {
	if reflect.DeepEqual(before, after) || noise[path(at)] {
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
		for _, key := range keys(b, a) {
			c.walk(step(at, segment{key: key}), get(b, key), get(a, key))
		}
	case shapeList:
		b, _ := before.([]any)
		a, _ := after.([]any)
		c.list(at, b, a)
	default:
		c.leaf(at, before, after)
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

// list compares items that have a name by it, so that an insertion is not a change of all
// that follow; others by their place.
func (c *comparison) list(at []segment, before, after []any) {
	key := identity(before, after)
	if key == "" {
		for i := range max(len(before), len(after)) {
			c.walk(step(at, segment{fmt.Sprint(i), true}), item(before, i), item(after, i))
		}
		return
	}
	b, order := byKey(key, before)
	a, newOrder := byKey(key, after)
	both := slices.Concat(order, newOrder)
	for i, name := range both {
		if i < len(order) || !has(b, name) {
			c.walk(step(at, segment{key + "=" + name, true}), get(b, name), get(a, name))
		}
	}
	kept := func(names []string) []any {
		var out []any
		for _, n := range names {
			if has(b, n) && has(a, n) {
				out = append(out, n)
			}
		}
		return out
	}
	if old, now := kept(order), kept(newOrder); !reflect.DeepEqual(old, now) {
		c.leaf(step(at, segment{"order", true}), old, now)
	}
}

// identities are what tells the items of Kubernetes' lists apart, the best one first.
var identities = []string{"name", "mountPath", "type", "key", "containerPort", "port", "uid", "ip"}

// identity is the field that tells all items of two lists apart; empty if there is none.
func identity(lists ...[]any) string {
	for _, key := range identities {
		if !slices.ContainsFunc(lists, func(list []any) bool { return !tellsApart(key, list) }) {
			return key
		}
	}
	return ""
}

func tellsApart(key string, list []any) bool {
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

func byKey(key string, list []any) (items map[string]any, order []string) {
	items = map[string]any{}
	for _, i := range list {
		name := fmt.Sprint(i.(map[string]any)[key])
		items[name] = i
		order = append(order, name)
	}
	return items, order
}

func (c *comparison) leaf(at []segment, before, after any) {
	f := Field{Path: path(at), Change: Changed, Redacted: redacted(c.kind, at), segments: at}
	if before == (absent{}) {
		f.Change, before = Set, nil
	}
	if after == (absent{}) {
		f.Change, after = Removed, nil
	}
	if !f.Redacted {
		f.Old, f.New = before, after
	}
	c.fields = append(c.fields, f)
}

// redacted says whether values at a path are secret. Annotations of what holds a secret are,
// too: kubectl apply and others keep a copy of the whole object there. Ours do not.
func redacted(kind string, at []segment) bool {
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

var plain = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// path writes a path as one would in a jsonpath, with the names of items where they have one.
func path(at []segment) string {
	var b strings.Builder
	for i, s := range at {
		switch {
		case s.item:
			b.WriteString("[" + s.key + "]")
		case !plain.MatchString(s.key):
			b.WriteString("['" + s.key + "']")
		case i > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}

func step(at []segment, next segment) []segment { return append(slices.Clip(at), next) }

func keys(a, b map[string]any) []string {
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

func get(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}
