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

// listElement is the path segment of the walked element of a list.
const listElement = "[]"

type schemaNode = apiextensionsv1.JSONSchemaProps

// kind is a kind whose schema is walked.
type kind struct {
	name, resource string
	spec           *schemaNode
}

// readKinds reads the schemas from the CRD manifests.
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

// leaf is a field without sub-fields.
type leaf struct {
	kind kind
	path []string
	node *schemaNode
	// scheduled walks a field of a job with a schedule, which has different children. The schema contains the field
	// only once, so it does not count as another leaf.
	scheduled bool
}

// name returns the path as text.
func (l leaf) name() string {
	return strings.ReplaceAll(strings.Join(append([]string{"spec"}, l.path...), "."), "."+listElement, listElement)
}

// componentPath returns the path of the component that contains a leaf, for a stack or a CloudManager. For an
// AppService it is the spec itself.
func (l leaf) componentPath() []string {
	switch {
	case l.kind.name == "AppStack" && len(l.path) > 2 && slices.Contains([]string{"service", "stateful", "job", "database"}, l.path[2]):
		return l.path[:3]
	case l.kind.name == "CloudManager" && len(l.path) > 1 && slices.Contains([]string{"deployment", "statefulSet"}, l.path[1]):
		return l.path[:2]
	}
	return nil
}

// componentType returns the type of the component that contains a leaf. For a leaf outside of components it is a
// service.
func (l leaf) componentType() string {
	if path := l.componentPath(); path != nil {
		return path[len(path)-1]
	}
	return "service"
}

// relativePath returns the path within the component, which all components and AppService share.
func (l leaf) relativePath() string {
	return strings.ReplaceAll(strings.Join(l.path[len(l.componentPath()):], "."), "."+listElement, listElement)
}

// leaves returns all leaves of a kind in a fixed order. It descends into lists of objects; a map or a list of
// primitive values is one leaf.
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

// childSchema returns the schema of the next path segment.
func childSchema(n *schemaNode, step string) *schemaNode {
	if step == listElement {
		return n.Items.Schema
	}
	child := n.Properties[step]
	return &child
}

// requiredFields returns the required fields of an object. They include the name in a reference, whose default "" is
// not usable.
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
