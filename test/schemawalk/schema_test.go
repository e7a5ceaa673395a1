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

// element is the step of a path into the walked element of a list.
const element = "[]"

type node = apiextensionsv1.JSONSchemaProps

// kind is one of the kinds whose schema is walked.
type kind struct {
	name, resource string
	spec           *node
}

// readKinds reads the schemas from the manifests that users apply.
func readKinds(t *testing.T) []kind {
	t.Helper()
	root, err := operator.Root()
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
	node *node
	// scheduled walks a field of a job in one that runs again and again, whose children are
	// others. The schema has it only once, so it does not count as another leaf.
	scheduled bool
}

// name is the path as people write it.
func (l leaf) name() string {
	return strings.ReplaceAll(strings.Join(append([]string{"spec"}, l.path...), "."), "."+element, element)
}

// holder is the way to the part of a spec that a leaf is in: that of a component of a stack,
// or of a CloudManager. The spec of an AppService is such a part itself.
func (l leaf) holder() []string {
	switch {
	case l.kind.name == "AppStack" && len(l.path) > 2 && slices.Contains([]string{"service", "stateful", "job", "database"}, l.path[2]):
		return l.path[:3]
	case l.kind.name == "CloudManager" && len(l.path) > 1 && slices.Contains([]string{"deployment", "statefulSet"}, l.path[1]):
		return l.path[:2]
	}
	return nil
}

// part is the name of what holds a leaf. Beside a leaf that is in none there is a service.
func (l leaf) part() string {
	if holder := l.holder(); holder != nil {
		return holder[len(holder)-1]
	}
	return "service"
}

// within is the path below the part, which all parts and AppService share.
func (l leaf) within() string {
	return strings.ReplaceAll(strings.Join(l.path[len(l.holder()):], "."), "."+element, element)
}

// leaves are all leaves of a kind, in a fixed order. A list of objects is entered; a map
// and a list of plain values are one leaf.
func (k kind) leaves() []leaf {
	var out []leaf
	var enter func(path []string, n *node)
	enter = func(path []string, n *node) {
		path = slices.Clip(path)
		switch {
		case len(n.Properties) > 0:
			for _, name := range sortedKeys(n.Properties) {
				child := n.Properties[name]
				enter(append(path, name), &child)
			}
		case n.Type == "array" && len(n.Items.Schema.Properties) > 0:
			enter(append(path, element), n.Items.Schema)
		default:
			out = append(out, leaf{kind: k, path: path, node: n})
		}
	}
	enter(nil, k.spec)
	return out
}

// below is the schema one step further down.
func below(n *node, step string) *node {
	if step == element {
		return n.Items.Schema
	}
	child := n.Properties[step]
	return &child
}

// required are the fields that an object cannot do without. The name in a reference is one
// of them: its default is a name that nothing has.
func required(n *node) []string {
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
