package plan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// declaredApp is an application of the manifest.
type declaredApp struct {
	location string // file and document, for errors
	// manifest is the document without defaults.
	manifest   *unstructured.Unstructured
	owner      desired.Owner
	components []desired.ExpandedComponent
}

// readManifests returns the applications of the manifests of the flags. It skips documents of other kinds with a
// message.
func (o options) readManifests(in io.Reader, errOut io.Writer) ([]declaredApp, error) {
	var out []declaredApp
	sources, err := o.openManifests(in, errOut)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range sources {
		applications, err := s.read(errOut)
		out, errs = append(out, applications...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || len(out) > 0 {
		return out, err
	}
	return nil, fmt.Errorf("%s: no %s found; specify a manifest with an application", o.manifestName(), supportedKinds)
}

// read returns the applications of one manifest.
func (m manifest) read(errOut io.Writer) ([]declaredApp, error) {
	var out []declaredApp
	var errs []error
	documents := utilyaml.NewYAMLReader(bufio.NewReader(m.content))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, errors.Join(errs...)
		}
		if err != nil {
			return out, errors.Join(append(errs, fmt.Errorf("read %s: %w; check that it is a text file", m.name, err))...)
		}
		location := fmt.Sprintf("%s: document %d", m.name, n)
		app, err := decodeDocument(document)
		switch {
		case errors.Is(err, errForeignGroup):
			fmt.Fprintf(errOut, "%s %s; skipped\n", location, err)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", location, err))
		case app != nil:
			app.location = location
			out = append(out, *app)
		}
	}
}

// supportedKinds are the kinds that plan supports.
const supportedKinds = "AppStack, AppService or CloudManager"

// errForeignGroup marks documents of other API groups.
var errForeignGroup = errors.New("is not a Holdfast kind")

// decodeDocument returns nil for an empty document.
func decodeDocument(document []byte) (*declaredApp, error) {
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	var content any
	if err := yaml.Unmarshal(document, &content); err != nil {
		return nil, fmt.Errorf("%w; fix the YAML", err)
	}
	if content == nil {
		return nil, nil
	}
	_ = yaml.Unmarshal(document, &header) // documents that are not objects have an empty header
	gv, err := schema.ParseGroupVersion(header.APIVersion)
	switch {
	case err != nil || header.APIVersion == "" || header.Kind == "":
		return nil, fmt.Errorf("apiVersion or kind is missing or invalid; use apiVersion: %s and kind: %s", appsapi.GroupVersion, supportedKinds)
	case gv.Group != appsapi.GroupName:
		return nil, fmt.Errorf("(%s) %w", header.Kind, errForeignGroup)
	}
	obj, _, err := decoder().Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("%s %s is not supported; use %s and kind %s", header.APIVersion, header.Kind, appsapi.GroupVersion, supportedKinds)
	}
	if err != nil {
		if invalid := fieldErrors(document, gv.WithKind(header.Kind)); len(invalid) > 0 {
			return nil, errors.New(strings.Join(invalid, "\n  "))
		}
		return nil, fmt.Errorf("%w; kubectl explain %s.spec lists the available fields", err, strings.ToLower(header.Kind))
	}
	a, err := newDeclaredApp(obj)
	if err != nil {
		return nil, err
	}
	a.manifest = &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, &a.manifest.Object); err != nil {
		return nil, fmt.Errorf("%w; fix the YAML", err)
	}
	return a, nil
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = appsapi.AddToScheme(s) // cannot fail
	return s
}()

func decoder() runtime.Decoder {
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

// newDeclaredApp converts an object to an application with its components.
func newDeclaredApp(obj runtime.Object) (*declaredApp, error) {
	app, ok := obj.(appkind.Application)
	if !ok {
		return nil, fmt.Errorf("%s is not an application; use %s", obj.GetObjectKind().GroupVersionKind().Kind, supportedKinds)
	}
	a := declaredApp{owner: appkind.Owner(app), components: appkind.Components(app)}
	a.owner.UID = "plan" // placeholder; the API server sets the UID
	if a.owner.Name == "" {
		return nil, errors.New("metadata.name is required")
	}
	return &a, nil
}

// validate checks rules of the API server that the planner relies on.
func (a declaredApp) validate() error {
	if len(a.components) == 0 {
		return errors.New("spec.components must have at least one component")
	}
	names := map[string]bool{}
	for _, c := range a.components {
		if c.Name == "" {
			return errors.New("the name of a component is required")
		}
		if names[c.Name] {
			return fmt.Errorf("two components are called %q; rename one of them", c.Name)
		}
		names[c.Name] = true
		types := 0
		for _, set := range []bool{c.Service != nil, c.Stateful != nil || c.Database != nil, c.Job != nil} {
			if set {
				types++
			}
		}
		if types != 1 {
			return fmt.Errorf("component %q must set exactly one of service, stateful, database and job", c.Name)
		}
	}
	return nil
}
