package find

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// query is the search. An object must match all fields that are set.
type query struct {
	image, secret, configMap, node, labels string
}

// Match is a field that matches the query.
type Match struct {
	// Reference is the image, or the kind and name of the object.
	Reference string `json:"reference"`
	// Path is the path of the field.
	Path string `json:"path"`
}

// The keys of pods and Ingresses that refer to a Secret or ConfigMap. The value is the field with the
// name, or empty if the key itself has the name.
var (
	secretKeys = map[string]string{
		"secretKeyRef": "name", "secretRef": "name", "nodePublishSecretRef": "name", "imagePullSecrets": "name",
		"secret": "name", "secretName": "",
	}
	configMapKeys = map[string]string{"configMapKeyRef": "name", "configMapRef": "name", "configMap": "name"}
)

// match returns the matching fields. ok is false if the object does not match the whole query. Node and
// labels match already, because the API server filtered by them.
func (q query) match(object map[string]any) (matches []Match, ok bool) {
	var s search
	if q.image != "" {
		s.image = q.image
		s.walk(nil, "", object)
		if len(s.matches) == 0 {
			return nil, false
		}
	}
	for _, named := range []struct {
		kind, name string
		keys       map[string]string
	}{{"Secret", q.secret, secretKeys}, {"ConfigMap", q.configMap, configMapKeys}} {
		if named.name == "" {
			continue
		}
		n := search{kind: named.kind, name: named.name, keys: named.keys}
		n.walk(nil, "", object)
		if len(n.matches) == 0 {
			return nil, false
		}
		s.matches = append(s.matches, n.matches...)
	}
	if q.node != "" {
		s.matches = append(s.matches, Match{"Node " + q.node, "spec.nodeName"})
	}
	if len(s.matches) == 0 { // a query by labels only
		s.matches = append(s.matches, Match{q.labels, "metadata.labels"})
	}
	return s.matches, true
}

// search searches an object for an image or a name.
type search struct {
	image      string
	kind, name string
	keys       map[string]string
	matches    []Match
}

// walk searches the value of a key. It visits only the spec: the status repeats it, and annotations can
// contain arbitrary text.
func (s *search) walk(path objdiff.Path, key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if field, ok := s.keys[key]; ok && field != "" && v[field] == s.name {
			s.add(s.kind+" "+s.name, path.Field(field))
		}
		if key == "image" { // an image volume
			s.walk(path.Field("reference"), key, v["reference"])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if len(path) == 0 && k != "spec" || k == "annotations" || k == "labels" {
				continue
			}
			s.walk(path.Field(k), k, v[k])
		}
	case []any:
		for i, item := range v {
			s.walk(path.Item(itemKey(i, item)), key, item)
		}
	case string:
		if field, ok := s.keys[key]; ok && field == "" && v == s.name {
			s.add(s.kind+" "+s.name, path)
		}
		if s.image != "" && key == "image" && strings.Contains(v, s.image) {
			s.add(v, path)
		}
	}
}

func (s *search) add(reference string, at objdiff.Path) {
	s.matches = append(s.matches, Match{reference, at.String()})
}

// itemKey returns the name of a list item, or its index.
func itemKey(i int, item any) string {
	if m, ok := item.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			return name
		}
	}
	return strconv.Itoa(i)
}
