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
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/kinds"
)

// declared is what a document of the manifest says.
type declared struct {
	where string // file and document, for errors
	// manifest is the document as it was written: what it does not say is not said.
	manifest   *unstructured.Unstructured
	owner      desired.Owner
	components []appsapi.Component
}

// read returns the applications of a manifest. Documents of other kinds are left out, with
// a word about it: people keep them together.
func read(file string, in io.Reader, errOut io.Writer) ([]declared, error) {
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
	var out []declared
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
		where := fmt.Sprintf("%s: document %d", name, n)
		a, err := decode(document)
		switch {
		case errors.Is(err, errNotOurs):
			fmt.Fprintf(errOut, "%s %s and is left out\n", where, err)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		case a != nil:
			a.where = where
			out = append(out, *a)
		}
	}
	if len(out)+len(errs) == 0 {
		return nil, fmt.Errorf("%s: there is no %s in it; give a manifest of one", name, ours)
	}
	return out, errors.Join(errs...)
}

// ours are the kinds that can be planned.
const ours = "AppStack, AppService or CloudManager"

// errNotOurs marks documents of other API groups.
var errNotOurs = errors.New("is not Holdfast's")

// decode returns nil for a document with nothing in it.
func decode(document []byte) (*declared, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	var anything any
	if err := yaml.Unmarshal(document, &anything); err != nil {
		return nil, fmt.Errorf("%w; correct the YAML", err)
	}
	if anything == nil {
		return nil, nil
	}
	_ = yaml.Unmarshal(document, &head) // what is not an object has neither
	gv, err := schema.ParseGroupVersion(head.APIVersion)
	switch {
	case err != nil || head.APIVersion == "" || head.Kind == "":
		return nil, fmt.Errorf("apiVersion and kind are missing or wrong; begin it with apiVersion: %s and kind: %s", appsapi.GroupVersion, ours)
	case gv.Group != appsapi.GroupName:
		return nil, fmt.Errorf("(%s) %w", head.Kind, errNotOurs)
	}
	obj, _, err := decoder().Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil, fmt.Errorf("%s %s is not known; use %s, and kind %s", head.APIVersion, head.Kind, appsapi.GroupVersion, ours)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; kubectl explain %s.spec lists the fields there are", err, strings.ToLower(head.Kind))
	}
	a, err := mapped(obj)
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

// mapped is what the operator makes of the object.
func mapped(obj runtime.Object) (*declared, error) {
	var a declared
	switch o := obj.(type) {
	case *appsapi.AppService:
		a.owner = desired.Owner{Namespace: o.Namespace, Name: o.Name}
		a.components = kinds.AppService(o)
	case *appsapi.AppStack:
		a.owner = desired.Owner{Namespace: o.Namespace, Name: o.Name}
		a.components = kinds.AppStack(o)
	case *appsapi.CloudManager:
		a.owner = desired.Owner{Namespace: o.Namespace, Name: o.Name}
		a.components = kinds.CloudManager(o)
	default:
		return nil, fmt.Errorf("%s is no application; give an %s", obj.GetObjectKind().GroupVersionKind().Kind, ours)
	}
	a.owner.APIVersion, a.owner.Kind = obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	a.owner.UID = "plan" // the API server gives the real one
	if a.owner.Name == "" {
		return nil, errors.New("metadata.name is missing; children are named after it, so give it one")
	}
	return &a, nil
}

// check finds what the API server would refuse and the planner takes for granted.
func (a declared) check() error {
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
