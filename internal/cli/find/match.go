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

// Found is one field that uses what is looked for.
type Found struct {
	// Uses is the image, or the kind and name of the object.
	Uses string `json:"uses"`
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

// in is where an object meets the query; ok is false when it does not meet all of it. The
// node and the labels are met already: the API server was asked for them.
func (q query) in(object map[string]any) (found []Found, ok bool) {
	var s search
	if q.image != "" {
		s.image = q.image
		s.walk("", "", object)
		if len(s.found) == 0 {
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
		if len(n.found) == 0 {
			return nil, false
		}
		s.found = append(s.found, n.found...)
	}
	if q.node != "" {
		s.found = append(s.found, Found{"Node " + q.node, "spec.nodeName"})
	}
	if len(s.found) == 0 { // the labels alone
		s.found = append(s.found, Found{q.labels, "metadata.labels"})
	}
	return s.found, true
}

// search goes through an object for an image or for a name.
type search struct {
	image      string
	kind, name string
	keys       map[string]string
	found      []Found
}

// walk looks at a value that stands under a key, at a path. Only the spec says what is
// used: the status of a pod repeats it, annotations may say anything.
func (s *search) walk(at, key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if field, ok := s.keys[key]; ok && field != "" && v[field] == s.name {
			s.found = append(s.found, Found{s.kind + " " + s.name, at + "." + field})
		}
		if key == "image" { // a volume that shows the content of one
			s.walk(at+".reference", key, v["reference"])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if at == "" && k != "spec" || k == "annotations" || k == "labels" {
				continue
			}
			s.walk(strings.TrimPrefix(at+"."+k, "."), k, v[k])
		}
	case []any:
		for i, item := range v {
			s.walk(fmt.Sprintf("%s[%s]", at, place(i, item)), key, item)
		}
	case string:
		if field, ok := s.keys[key]; ok && field == "" && v == s.name {
			s.found = append(s.found, Found{s.kind + " " + s.name, at})
		}
		if s.image != "" && key == "image" && strings.Contains(v, s.image) {
			s.found = append(s.found, Found{v, at})
		}
	}
}

// place names an item of a list.
func place(i int, item any) string {
	if m, ok := item.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			return "name=" + name
		}
	}
	return fmt.Sprint(i)
}
