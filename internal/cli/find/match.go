package find

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// query is what is looked for. All that is set is to be met by one object.
type query struct {
	image, secret, configMap, node, labels string
}

// Match is one field that uses what is looked for.
type Match struct {
	// Reference is the image, or the kind and name of the object.
	Reference string `json:"uses"`
	// Path is where that is said.
	Path string `json:"path"`
}

// The keys under which pods, and Ingresses, name a Secret or a ConfigMap. A key alone is
// followed by the name itself, others by an object that has it as this field.
var (
	secretKeys = map[string]string{
		"secretKeyRef": "name", "secretRef": "name", "nodePublishSecretRef": "name", "imagePullSecrets": "name",
		"secret": "name", "secretName": "",
	}
	configMapKeys = map[string]string{"configMapKeyRef": "name", "configMapRef": "name", "configMap": "name"}
)

// match is where an object meets the query; ok is false when it does not meet all of it. The
// node and the labels are met already: the API server was asked for them.
func (q query) match(object map[string]any) (matches []Match, ok bool) {
	var s search
	if q.image != "" {
		s.image = q.image
		s.walk("", "", object)
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
		n.walk("", "", object)
		if len(n.matches) == 0 {
			return nil, false
		}
		s.matches = append(s.matches, n.matches...)
	}
	if q.node != "" {
		s.matches = append(s.matches, Match{"Node " + q.node, "spec.nodeName"})
	}
	if len(s.matches) == 0 { // the labels alone
		s.matches = append(s.matches, Match{q.labels, "metadata.labels"})
	}
	return s.matches, true
}

// search goes through an object for an image or for a name.
type search struct {
	image      string
	kind, name string
	keys       map[string]string
	matches    []Match
}

// walk looks at a value that stands under a key, at a path. Only the spec says what is
// used: the status of a pod repeats it, annotations may say anything.
func (s *search) walk(path, key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if field, ok := s.keys[key]; ok && field != "" && v[field] == s.name {
			s.matches = append(s.matches, Match{s.kind + " " + s.name, path + "." + field})
		}
		if key == "image" { // a volume that shows the content of one
			s.walk(path+".reference", key, v["reference"])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if path == "" && k != "spec" || k == "annotations" || k == "labels" {
				continue
			}
			s.walk(strings.TrimPrefix(path+"."+k, "."), k, v[k])
		}
	case []any:
		for i, item := range v {
			s.walk(fmt.Sprintf("%s[%s]", path, itemKey(i, item)), key, item)
		}
	case string:
		if field, ok := s.keys[key]; ok && field == "" && v == s.name {
			s.matches = append(s.matches, Match{s.kind + " " + s.name, path})
		}
		if s.image != "" && key == "image" && strings.Contains(v, s.image) {
			s.matches = append(s.matches, Match{v, path})
		}
	}
}

// itemKey names an item of a list.
func itemKey(i int, item any) string {
	if m, ok := item.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			return "name=" + name
		}
	}
	return fmt.Sprint(i)
}
