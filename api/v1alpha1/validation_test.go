package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
)

// strict is the field validation of kubectl: a misspelled field is an error.
const strict = metav1.FieldValidationStrict

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: strict}

// TestCRDsOnAPIServer shares one control plane among all kinds. Each kind has its own file.
func TestCRDsOnAPIServer(t *testing.T) {
	plane := testutil.SharedControlPlane(t)
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := testutil.Namespace(t, plane.Config)
	apps := client.Resource(appsapi.GroupVersion.WithResource("appservices")).Namespace(namespace)
	stacks := client.Resource(appsapi.GroupVersion.WithResource("appstacks")).Namespace(namespace)

	t.Run("CRDs", func(t *testing.T) { testEstablished(t, client) })
	t.Run("samples", func(t *testing.T) { testSamples(t, client, namespace) })
	t.Run("AppService", func(t *testing.T) { testAppService(t, apps) })
	t.Run("AppStack", func(t *testing.T) { testAppStack(t, plane.Config, stacks, namespace) })
}

// testEstablished checks that the API server accepts the schemas. It rejects CEL rules whose estimated
// cost is too high.
func testEstablished(t *testing.T, client dynamic.Interface) {
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for kind, file := range crds(t) {
		t.Run(kind, func(t *testing.T) {
			o, err := definitions.Get(t.Context(), file.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, condition := range crd.Status.Conditions {
				got[string(condition.Type)] = string(condition.Status)
			}
			if diff := cmp.Diff(map[string]string{"NamesAccepted": "True", "Established": "True"}, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// testSamples creates the samples of the documentation.
func testSamples(t *testing.T, client dynamic.Interface, namespace string) {
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found samples %q, error %v", files, err)
	}
	for _, file := range files {
		// Every file is an object, because users also apply the whole folder with kubectl apply -f.
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			o := &unstructured.Unstructured{Object: parse(t, string(content))}
			resource := appsapi.GroupVersion.WithResource(strings.ToLower(o.GetKind()) + "s")
			_, err = client.Resource(resource).Namespace(namespace).Create(t.Context(), o, dryRun)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMarshalOmitsUnsetFields prevents controllers and generated clients from owning fields that the user
// did not set.
func TestMarshalOmitsUnsetFields(t *testing.T) {
	container := appsapi.ContainerSpec{Image: "nginx"}
	service := appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: container}}
	tests := map[string]struct {
		object any
		want   string
	}{
		"AppService": {
			object: appsapi.AppService{Spec: appsapi.AppServiceSpec{ServiceComponent: service}},
			want:   `{"metadata":{},"spec":{"image":"nginx"}}`,
		},
		"AppStack": {
			object: appsapi.AppStack{Spec: appsapi.AppStackSpec{Components: []appsapi.Component{
				{Name: "web", Service: &service, Bindings: []appsapi.Binding{{Component: "api"}}},
				{Name: "migrate", Job: &appsapi.JobComponent{ContainerSpec: container}},
			}}},
			want: `{"metadata":{},"spec":{"components":[{"name":"web","bindings":[{"component":"api"}],"service":{"image":"nginx"}},{"name":"migrate","job":{"image":"nginx"}}]}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// wantRejected checks that exactly these fields were rejected with these messages. The API server puts the
// value before the message, in a form that depends on its version.
func wantRejected(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want %q", want)
	}
	got := rejectionCauses(err)
	same := slices.EqualFunc(got, want, func(got, want string) bool {
		field, words, _ := strings.Cut(want, ": ")
		return strings.HasPrefix(got, field+": ") && strings.HasSuffix(got, ": "+words)
	})
	if !same {
		t.Errorf("rejected with\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// rejectionCauses returns the rejected fields with the messages of the API server, sorted.
func rejectionCauses(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var found []string
	for _, cause := range status.Status().Details.Causes {
		// The API server adds this note to errors that prevent further checks.
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		found = append(found, cause.Field+": "+cause.Message)
	}
	slices.Sort(found)
	return found
}

// create creates an object with a unique name.
func create(t *testing.T, resource dynamic.ResourceInterface, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	o.SetGenerateName(o.GetName() + "-")
	o.SetName("")
	o, err := resource.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: strict})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func manifest(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": parse(t, spec)}}
	o.SetAPIVersion("apps.holdfast.dev/v1alpha1")
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// parse reads YAML the way a client does: whole numbers are int64.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	content, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON([]byte(`{"kind":"Any","value":` + string(content) + `}`)); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return o.Object["value"].(map[string]any)
}
