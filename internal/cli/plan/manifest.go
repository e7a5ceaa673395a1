package plan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
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

// declaredApp is what a document of the manifest says.
type declaredApp struct {
	location string // file and document, for errors
	// manifest is the document as it was written: what it does not say is not said.
	manifest   *unstructured.Unstructured
	owner      desired.Owner
	components []appsapi.Component
}

// readManifest returns the applications of a manifest. Documents of other kinds are left out, with
// a word about it: people keep them together.
func readManifest(file string, in io.Reader, errOut io.Writer) ([]declaredApp, error) {
	name := file
	if file == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("%w; give the path of a manifest, or - for standard input", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	var out []declaredApp
	var errs []error
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, errors.Join(append(errs, fmt.Errorf("read %s: %w; check that it is a text file", name, err))...)
		}
		location := fmt.Sprintf("%s: document %d", name, n)
		app, err := decodeDocument(document)
		switch {
		case errors.Is(err, errForeignGroup):
			fmt.Fprintf(errOut, "%s %s and is left out\n", location, err)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", location, err))
		case app != nil:
			app.location = location
			out = append(out, *app)
		}
	}
	if len(out)+len(errs) == 0 {
		return nil, fmt.Errorf("%s: there is no %s in it; give a manifest of one", name, supportedKinds)
	}
	return out, errors.Join(errs...)
}

// supportedKinds are the kinds that can be planned.
const supportedKinds = "AppStack, AppService or CloudManager"

// errForeignGroup marks documents of other API groups.
var errForeignGroup = errors.New("is not Holdfast's")

// decodeDocument returns nil for a document with nothing in it.
func decodeDocument(document []byte) (*declaredApp, error) {
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	var content any
	if err := yaml.Unmarshal(document, &content); err != nil {
		return nil, fmt.Errorf("%w; correct the YAML", err)
	}
	if content == nil {
		return nil, nil
	}
	_ = yaml.Unmarshal(document, &header) // what is not an object has neither
	gv, err := schema.ParseGroupVersion(header.APIVersion)
	switch {
	case err != nil || header.APIVersion == "" || header.Kind == "":
		return nil, fmt.Errorf("apiVersion and kind are missing or wrong; begin it with apiVersion: %s and kind: %s", appsapi.GroupVersion, supportedKinds)
	case gv.Group != appsapi.GroupName:
		return nil, fmt.Errorf("(%s) %w", header.Kind, errForeignGroup)
	}
	obj, _, err := decoder().Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("%s %s is not known; use %s, and kind %s", header.APIVersion, header.Kind, appsapi.GroupVersion, supportedKinds)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; kubectl explain %s.spec lists the fields there are", err, strings.ToLower(header.Kind))
	}
	a, err := newDeclaredApp(obj)
	if err != nil {
		return nil, err
	}
	a.manifest = &unstructured.Unstructured{}
	if err := yaml.Unmarshal(document, &a.manifest.Object); err != nil {
		return nil, fmt.Errorf("%w; correct the YAML", err)
	}
	return a, nil
}

func decoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	_ = appsapi.AddToScheme(scheme) // cannot fail
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

// newDeclaredApp is what the operator makes of the object.
func newDeclaredApp(obj runtime.Object) (*declaredApp, error) {
	var a declaredApp
	switch o := obj.(type) {
	case *appsapi.AppService:
		a.owner = desired.Owner{Namespace: o.Namespace, Name: o.Name}
		a.components = appkind.AppServiceComponents(o)
	case *appsapi.AppStack:
		a.owner = desired.Owner{Namespace: o.Namespace, Name: o.Name}
		a.components = appkind.AppStackComponents(o)
	case *appsapi.CloudManager:
		a.owner = desired.Owner{Namespace: o.Namespace, Name: o.Name}
		a.components = appkind.CloudManagerComponents(o)
	default:
		return nil, fmt.Errorf("%s is no application; give an %s", obj.GetObjectKind().GroupVersionKind().Kind, supportedKinds)
	}
	a.owner.APIVersion, a.owner.Kind = obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	a.owner.UID = "plan" // the API server gives the real one
	if a.owner.Name == "" {
		return nil, errors.New("metadata.name is missing; children are named after it, so give it one")
	}
	return &a, nil
}

// validate finds what the API server would refuse and the planner takes for granted.
func (a declaredApp) validate() error {
	if len(a.components) == 0 {
		return errors.New("spec.components is empty; add a component")
	}
	for _, c := range a.components {
		if c.Name == "" {
			return errors.New("a component has no name; give it one")
		}
		types := 0
		for _, set := range []bool{c.Service != nil, c.Stateful != nil || c.Database != nil, c.Job != nil} {
			if set {
				types++
			}
		}
		if types != 1 {
			return fmt.Errorf("component %q is not exactly one of service, stateful, database and job; say what it is", c.Name)
		}
	}
	return nil
}
