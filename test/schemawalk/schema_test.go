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
	for _, resource := range []string{"appservices", "appstacks"} {
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

// within is the path below the service or the job, which AppService and AppStack share.
func (l leaf) within() string {
	path := l.path
	if l.kind.name == "AppStack" && len(path) > 2 && (path[2] == "service" || path[2] == "job") {
		path = path[3:]
	}
	return strings.ReplaceAll(strings.Join(path, "."), "."+element, element)
}

func (l leaf) ofJob() bool { return len(l.path) > 2 && l.path[0] == "components" && l.path[2] == "job" }

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
