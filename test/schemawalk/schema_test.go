package schemawalk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// listElement is the step of a path into the walked element of a list.
const listElement = "[]"

type schemaNode = apiextensionsv1.JSONSchemaProps

// kind is one of the kinds whose schema is walked.
type kind struct {
	name, resource string
	spec           *schemaNode
}

// readKinds reads the schemas from the manifests that users apply.
func readKinds(t *testing.T) []kind {
	t.Helper()
	root, err := operator.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	var out []kind
	for _, resource := range []string{"appservices", "appstacks", "cloudmanagers"} {
		content, err := os.ReadFile(filepath.Join(root, "config", "crd", "apps.holdfast.dev_"+resource+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatal(err)
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		out = append(out, kind{crd.Spec.Names.Kind, resource, &spec})
	}
	return out
}

// leaf is a field that has no fields.
type leaf struct {
	kind kind
	path []string
	node *schemaNode
	// scheduled walks a field of a job in one that runs again and again, whose children are
	// others. The schema has it only once, so it does not count as another leaf.
	scheduled bool
}

// name is the path as people write it.
func (l leaf) name() string {
	return strings.ReplaceAll(strings.Join(append([]string{"spec"}, l.path...), "."), "."+listElement, listElement)
}

// componentPath is the way to the part of a spec that a leaf is in: that of a component of a stack,
// or of a CloudManager. The spec of an AppService is such a part itself.
func (l leaf) componentPath() []string {
	switch {
	case l.kind.name == "AppStack" && len(l.path) > 2 && slices.Contains([]string{"service", "stateful", "job", "database"}, l.path[2]):
		return l.path[:3]
	case l.kind.name == "CloudManager" && len(l.path) > 1 && slices.Contains([]string{"deployment", "statefulSet"}, l.path[1]):
		return l.path[:2]
	}
	return nil
}

// componentType is the name of what holds a leaf. Beside a leaf that is in none there is a service.
func (l leaf) componentType() string {
	if path := l.componentPath(); path != nil {
		return path[len(path)-1]
	}
	return "service"
}

// relativePath is the path below the part, which all parts and AppService share.
func (l leaf) relativePath() string {
	return strings.ReplaceAll(strings.Join(l.path[len(l.componentPath()):], "."), "."+listElement, listElement)
}

// leaves are all leaves of a kind, in a fixed order. A list of objects is entered; a map
// and a list of plain values are one leaf.
func (k kind) leaves() []leaf {
	var out []leaf
	var visit func(path []string, n *schemaNode)
	visit = func(path []string, n *schemaNode) {
		path = slices.Clip(path)
		switch {
		case len(n.Properties) > 0:
			for _, name := range sortedKeys(n.Properties) {
				child := n.Properties[name]
				visit(append(path, name), &child)
			}
		case n.Type == "array" && len(n.Items.Schema.Properties) > 0:
			visit(append(path, listElement), n.Items.Schema)
		default:
			out = append(out, leaf{kind: k, path: path, node: n})
		}
	}
	visit(nil, k.spec)
	return out
}

// childSchema is the schema one step further down.
func childSchema(n *schemaNode, step string) *schemaNode {
	if step == listElement {
		return n.Items.Schema
	}
	child := n.Properties[step]
	return &child
}

// requiredFields are the fields that an object cannot do without. The name in a reference is one
// of them: its default is a name that nothing has.
func requiredFields(n *schemaNode) []string {
	if name, ok := n.Properties["name"]; ok && name.Default != nil && string(name.Default.Raw) == `""` {
		return append(slices.Clone(n.Required), "name")
	}
	return n.Required
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
