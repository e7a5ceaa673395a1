package v1alpha1_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// maxCRDSize is the maximum size of all annotations of an object: `kubectl apply` stores the whole CRD in one
// of them.
const maxCRDSize = 256 * 1024

// crdExpectation is the expected short name, columns and scale subresource of a kind.
type crdExpectation struct {
	shortName     string
	columns, wide []string
	scale         *apiextensionsv1.CustomResourceSubresourceScale
}

var crdExpectations = map[string]crdExpectation{
	"AppService": {
		shortName: "appsvc",
		columns:   []string{"Ready", "Reason", "Replicas", "Image", "Age"},
		wide:      []string{"URL", "Message"},
		scale: &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath:   ".spec.replicas",
			StatusReplicasPath: ".status.replicas",
			LabelSelectorPath:  new(".status.selector"),
		},
	},
	"AppStack": {
		shortName: "as",
		columns:   []string{"Ready", "Reason", "Components", "Age"},
		wide:      []string{"Message", "Revision"},
	},
	"CloudManager": {
		shortName: "cloudm",
		columns:   []string{"Status", "Components", "Age"},
		wide:      []string{"Message", "Revision"},
	},
}

func TestSchemasFollowConventions(t *testing.T) {
	types := kinds(t)
	for kind, crd := range crds(t) {
		t.Run(kind, func(t *testing.T) {
			if types[kind] == nil {
				t.Fatalf("%s has a CRD but is not registered with AddToScheme", kind)
			}
			for _, version := range crd.Spec.Versions {
				for _, violation := range lint(types[kind], version.Schema.OpenAPIV3Schema) {
					t.Error(violation)
				}
			}
		})
		delete(types, kind)
	}
	for kind := range types {
		t.Errorf("%s is registered with AddToScheme but has no CRD", kind)
	}
}

func TestCRDs(t *testing.T) {
	for kind, crd := range crds(t) {
		t.Run(kind, func(t *testing.T) {
			want, known := crdExpectations[kind]
			if !known {
				t.Fatalf("add %s to crdExpectations", kind)
			}
			if crd.size > maxCRDSize {
				t.Errorf("the CRD has %d bytes of JSON, more than the %d that `kubectl apply` can store", crd.size, maxCRDSize)
			}
			t.Logf("the CRD has %d bytes of JSON, %d %% of the limit of `kubectl apply`", crd.size, 100*crd.size/maxCRDSize)

			names := crd.Spec.Names
			if diff := cmp.Diff([]string{want.shortName}, names.ShortNames); diff != "" {
				t.Errorf("short names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"holdfast"}, names.Categories); diff != "" {
				t.Errorf("categories (-want +got):\n%s", diff)
			}
			if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
				t.Errorf("scope %s, want Namespaced", crd.Spec.Scope)
			}
			for _, version := range crd.Spec.Versions {
				if version.Subresources == nil || version.Subresources.Status == nil {
					t.Fatalf("%s has no status subresource: users could write it", version.Name)
				}
				if diff := cmp.Diff(want.scale, version.Subresources.Scale); diff != "" {
					t.Errorf("scale subresource of %s (-want +got):\n%s", version.Name, diff)
				}
				var columns, wide []string
				for _, column := range version.AdditionalPrinterColumns {
					if column.Priority == 0 {
						columns = append(columns, column.Name)
						continue
					}
					wide = append(wide, column.Name)
				}
				if diff := cmp.Diff(want.columns, columns); diff != "" {
					t.Errorf("columns of %s (-want +got):\n%s", version.Name, diff)
				}
				if diff := cmp.Diff(want.wide, wide); diff != "" {
					t.Errorf("wide columns of %s (-want +got):\n%s", version.Name, diff)
				}
			}
		})
	}
}

type crd struct {
	apiextensionsv1.CustomResourceDefinition
	size int // of its JSON
}

// crds returns the generated CRDs by kind.
func crds(t *testing.T) map[string]crd {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/apps.holdfast.dev_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]crd{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		json, err := yaml.YAMLToJSONStrict(content)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		c := crd{size: len(json)}
		if err := yaml.UnmarshalStrict(json, &c.CustomResourceDefinition); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if c.Kind == "CustomResourceDefinition" {
			found[c.Spec.Names.Kind] = c
		}
	}
	if len(found) == 0 {
		t.Fatal("no CRDs in config/crd: run `make generate`")
	}
	return found
}

// kinds returns the Go types of the registered kinds that have a list type.
func kinds(t *testing.T) map[string]reflect.Type {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsapi.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	types := scheme.KnownTypes(appsapi.GroupVersion)
	found := map[string]reflect.Type{}
	for kind, typ := range types {
		if _, listed := types[kind+"List"]; listed {
			found[kind] = typ
		}
	}
	return found
}

// linter checks a schema against the API conventions of Holdfast. It walks the Go types in parallel: fields
// inside of types of other packages are not checked.
type linter struct {
	pkgPath    string // import path of the API types
	violations []string
}

// lint returns the violations in the schema of a type, sorted by path.
func lint(root reflect.Type, schema *apiextensionsv1.JSONSchemaProps) []string {
	l := &linter{pkgPath: root.PkgPath()}
	l.value("", root, schema)
	return l.violations
}

func (l *linter) addf(path, format string, args ...any) {
	l.violations = append(l.violations, strings.TrimPrefix(path, ".")+": "+fmt.Sprintf(format, args...))
}

func (l *linter) foreign(t reflect.Type) bool { return t.PkgPath() != "" && t.PkgPath() != l.pkgPath }

// value checks one schema, and the schemas below it unless the type belongs to another package.
func (l *linter) value(path string, t reflect.Type, schema *apiextensionsv1.JSONSchemaProps) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, rule := range schema.XValidations {
		if rule.Message == "" && rule.MessageExpression == "" {
			l.addf(path, "the rule %q has no message", rule.Rule)
		}
	}
	l.scalar(path, schema)
	switch {
	case !l.foreign(t) && !matches(t, schema):
		l.addf(path, "%s in the CRD, %s in Go: run `make generate`", schema.Type, t.Kind())
	case schema.Type == "array":
		l.list(path, schema)
		if !l.foreign(t) && schema.Items != nil && schema.Items.Schema != nil {
			l.value(path+"[]", t.Elem(), schema.Items.Schema)
		}
	case l.foreign(t):
	case schema.AdditionalProperties != nil:
		l.dictionary(path, t, schema)
	case schema.Type == "object":
		l.object(path, t, schema)
	}
}

// matches reports whether a schema and a Go type have the same shape.
func matches(t reflect.Type, schema *apiextensionsv1.JSONSchemaProps) bool {
	switch {
	case schema.Type == "array":
		return t.Kind() == reflect.Slice
	case schema.AdditionalProperties != nil:
		return t.Kind() == reflect.Map
	case schema.Type == "object":
		return t.Kind() == reflect.Struct
	}
	return true
}

var pascalCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// scalar checks that a value has limits.
func (l *linter) scalar(path string, schema *apiextensionsv1.JSONSchemaProps) {
	for _, value := range schema.Enum {
		if word := strings.Trim(string(value.Raw), `"`); !pascalCase.MatchString(word) {
			l.addf(path, "enum value %q is not in PascalCase", word)
		}
	}
	switch {
	case schema.XIntOrString:
		if schema.MaxLength == nil && schema.Pattern == "" {
			l.addf(path, "an int-or-string needs maxLength or a pattern for its strings")
		}
	case schema.Type == "string":
		if schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format != "date-time" {
			l.addf(path, "a string needs maxLength or an enum")
		}
	case schema.Type == "integer":
		if schema.Minimum == nil {
			l.addf(path, "an integer needs a minimum")
		}
		if schema.Format != "int32" && schema.Format != "int64" {
			l.addf(path, "an integer is an int32 or an int64, not %q", schema.Format)
		}
	case schema.Type == "number":
		l.addf(path, "no floats: they do not survive a round trip")
	}
}

// list checks the limits, type and keys of a list.
func (l *linter) list(path string, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.MaxItems == nil {
		l.addf(path, "a list needs maxItems")
	}
	if schema.XListType == nil {
		l.addf(path, "a list needs x-kubernetes-list-type")
		return
	}
	if *schema.XListType != "map" || schema.Items == nil || schema.Items.Schema == nil {
		return
	}
	item := schema.Items.Schema
	for _, key := range schema.XListMapKeys {
		if !slices.Contains(item.Required, key) && item.Properties[key].Default == nil {
			l.addf(path, "the list key %q is neither required nor defaulted", key)
		}
	}
}

// dictionary checks the limits and values of a map.
func (l *linter) dictionary(path string, t reflect.Type, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.MaxProperties == nil {
		l.addf(path, "a map needs maxProperties")
	}
	value := schema.AdditionalProperties.Schema
	if value == nil || value.Type == "object" {
		l.addf(path, "no maps of objects: make it a list with listType=map")
		return
	}
	l.value(path+"{}", t.Elem(), value)
}

// object checks a struct field by field, and that Go type and schema have the same fields.
func (l *linter) object(path string, t reflect.Type, schema *apiextensionsv1.JSONSchemaProps) {
	fields, envelope := l.fields(t)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		property, found := schema.Properties[name]
		if !found {
			l.addf(path+"."+name, "missing in the CRD: run `make generate`")
			continue
		}
		l.description(path+"."+name, name, property.Description)
		l.value(path+"."+name, fields[name], &property)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if fields[name] == nil && !envelope[name] {
			l.addf(path+"."+name, "missing in the Go type: run `make generate`")
		}
	}
}

// maxLine is the line width of `kubectl explain`.
const maxLine = 76

// description checks that a description starts with the name of its field, and that `kubectl explain` does
// not wrap its lines.
func (l *linter) description(path, name, text string) {
	if word, _, _ := strings.Cut(text, " "); word != name {
		l.addf(path, "the description must begin with %q, not with %q", name, word)
	}
	if !strings.Contains(text, "\n") {
		return
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) > maxLine {
			l.addf(path, "`kubectl explain` breaks lines after %d characters: %q", maxLine, line)
		}
	}
}

// fields returns the fields of a struct by their JSON names. Embedded structs of other packages (kind,
// metadata) are the envelope.
func (l *linter) fields(t reflect.Type) (fields map[string]reflect.Type, envelope map[string]bool) {
	fields, envelope = map[string]reflect.Type{}, map[string]bool{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		inline := name == "" && (options == "" || strings.Contains(options, "inline"))
		switch {
		case name == "-": // not part of the API
		case field.Anonymous && !inline && l.foreign(field.Type):
			envelope[name] = true
		case field.Anonymous && inline:
			inner, more := l.fields(field.Type)
			maps.Copy(envelope, more)
			if l.foreign(field.Type) {
				for name := range inner {
					envelope[name] = true
				}
				continue
			}
			maps.Copy(fields, inner)
		default:
			fields[name] = field.Type
		}
	}
	return fields, envelope
}

type (
	// foreignFields has fields with types of other packages.
	foreignFields struct {
		Time    metav1.Time         `json:"time"`
		Percent *intstr.IntOrString `json:"percent"`
		Probe   *corev1.Probe       `json:"probe"`
		Env     []corev1.EnvVar     `json:"env"`
		Policy  corev1.PullPolicy   `json:"policy"`
	}
	object struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		inner             `json:",inline"`
	}
	inner struct {
		Name string `json:"name"`
	}
)

// TestLintReportsViolations checks the message of every rule of the linter.
func TestLintReportsViolations(t *testing.T) {
	type (
		number struct {
			Count int32 `json:"count"`
		}
		list struct {
			Items []string `json:"items"`
		}
		named struct {
			Items []inner `json:"items"`
		}
		labels struct {
			Labels map[string]string `json:"labels"`
		}
	)
	tests := map[string]struct {
		typ    any
		schema string // of the properties
		want   []string
	}{
		"valid": {typ: object{}, schema: `
apiVersion: {type: string}
kind: {type: string}
metadata: {type: object}
name: {type: string, maxLength: 63, description: name of it., x-kubernetes-validations: [{rule: "true", message: never seen}]}`},
		"fields inside of foreign types": {typ: foreignFields{}, schema: `
time: {type: string, format: date-time, description: time of day.}
percent: {x-kubernetes-int-or-string: true, pattern: "^[0-9]%$", description: percent of it.}
probe: {type: object, description: probe it., properties: {exec: {type: object, properties: {command: {type: array}}}}}
env: {type: array, maxItems: 3, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], description: env of it., items: {type: object, required: [name], properties: {name: {type: string}}}}
policy: {type: string, enum: [Always], description: policy of it.}`},
		"fields with foreign types": {
			typ: foreignFields{}, schema: `
time: {type: string, format: date-time}
percent: {x-kubernetes-int-or-string: true, description: percent of it.}
probe: {type: object, description: A probe.}
env: {type: array, description: env of it., items: {type: object}}
policy: {type: string, description: policy of it.}`,
			want: []string{
				"env: a list needs maxItems",
				"env: a list needs x-kubernetes-list-type",
				"percent: an int-or-string needs maxLength or a pattern for its strings",
				"policy: a string needs maxLength or an enum",
				`probe: the description must begin with "probe", not with "A"`,
				`time: the description must begin with "time", not with ""`,
			},
		},
		"description without the field name": {
			typ: inner{}, schema: `name: {type: string, maxLength: 9, description: Names it.}`,
			want: []string{`name: the description must begin with "name", not with "Names"`},
		},
		"description line of maximum length": {
			typ: inner{}, schema: `name: {type: string, maxLength: 9, description: "name of ` + strings.Repeat("x", 68) + `\nand more."}`,
		},
		"description line that is too long": {
			typ: inner{}, schema: `name: {type: string, maxLength: 9, description: "name of ` + strings.Repeat("x", 69) + `\nand more."}`,
			want: []string{"name: `kubectl explain` breaks lines after 76 characters: \"name of " + strings.Repeat("x", 69) + `"`},
		},
		"long description without line breaks": {
			typ: inner{}, schema: `name: {type: string, maxLength: 9, description: "name of ` + strings.Repeat("x ", 99) + `"}`,
		},
		"unbounded string": {
			typ: inner{}, schema: `name: {type: string, description: name of it.}`,
			want: []string{"name: a string needs maxLength or an enum"},
		},
		"format without a limit": {
			typ: inner{}, schema: `name: {type: string, format: uri, description: name of it.}`,
			want: []string{"name: a string needs maxLength or an enum"},
		},
		"enum value in upper case": {
			typ: inner{}, schema: `name: {type: string, enum: [Right, wrong, NOT_THIS], description: name of it.}`,
			want: []string{`name: enum value "wrong" is not in PascalCase`, `name: enum value "NOT_THIS" is not in PascalCase`},
		},
		"integer without a minimum": {
			typ: number{}, schema: `count: {type: integer, format: int32, description: count of it.}`,
			want: []string{"count: an integer needs a minimum"},
		},
		"integer without a size": {
			typ: number{}, schema: `count: {type: integer, minimum: 0, description: count of it.}`,
			want: []string{`count: an integer is an int32 or an int64, not ""`},
		},
		"float": {
			typ: number{}, schema: `count: {type: number, minimum: 0, description: count of it.}`,
			want: []string{"count: no floats: they do not survive a round trip"},
		},
		"unbounded list": {
			typ: list{}, schema: `items: {type: array, x-kubernetes-list-type: set, description: items of it., items: {type: string}}`,
			want: []string{"items: a list needs maxItems", "items[]: a string needs maxLength or an enum"},
		},
		"list without a type": {
			typ: list{}, schema: `items: {type: array, maxItems: 2, description: items of it., items: {type: string, maxLength: 9}}`,
			want: []string{"items: a list needs x-kubernetes-list-type"},
		},
		"optional list key": {
			typ: named{}, schema: `
items:
  {type: array, maxItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], description: items of it.,
   items: {type: object, properties: {name: {type: string, maxLength: 9, description: name of it.}}}}`,
			want: []string{`items: the list key "name" is neither required nor defaulted`},
		},
		"list key with a default": {typ: named{}, schema: `
items:
  {type: array, maxItems: 2, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], description: items of it.,
   items: {type: object, properties: {name: {type: string, default: web, maxLength: 9, description: name of it.}}}}`},
		"unbounded map": {
			typ: labels{}, schema: `labels: {type: object, description: labels of it., additionalProperties: {type: string}}`,
			want: []string{"labels: a map needs maxProperties", "labels{}: a string needs maxLength or an enum"},
		},
		"map of objects": {
			typ: labels{}, schema: `labels: {type: object, maxProperties: 3, description: labels of it., additionalProperties: {type: object}}`,
			want: []string{"labels: no maps of objects: make it a list with listType=map"},
		},
		"rule without a message": {
			typ: inner{}, schema: `name: {type: string, maxLength: 9, description: name of it., x-kubernetes-validations: [{rule: self != ''}]}`,
			want: []string{`name: the rule "self != ''" has no message`},
		},
		"outdated CRD": {
			typ: inner{}, schema: `title: {type: string}`,
			want: []string{"name: missing in the CRD: run `make generate`", "title: missing in the Go type: run `make generate`"},
		},
		"CRD with another type": {
			typ: inner{}, schema: `name: {type: array, maxItems: 2, x-kubernetes-list-type: set, description: name of it., items: {type: string}}`,
			want: []string{"name: array in the CRD, string in Go: run `make generate`"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			schema := apiextensionsv1.JSONSchemaProps{Type: "object"}
			if err := yaml.UnmarshalStrict([]byte(tc.schema), &schema.Properties); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lint(reflect.TypeOf(tc.typ), &schema)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
