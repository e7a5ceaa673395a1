package center

import (
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// TestCustomKindsAtRuntime creates a CRD while the center is running. Its objects appear in the tree with their
// reported health, and disappear with the CRD.
func TestCustomKindsAtRuntime(t *testing.T) {
	t.Parallel() // measurements run first, one at a time
	plane := testutil.ControlPlane(t, controlplane.Options{})
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	c := startCore(t, plane.Config, nil)
	ns := testutil.Namespace(t, plane.Config)
	ext, err := apiextensions.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dynamic.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}}},
	}}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	ref := model.Ref{Kind: "Group", Namespace: ns, Name: "suite"}
	var slowest time.Duration
	for range 3 {
		if _, err := ext.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd.DeepCopy(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		one := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "one", "labels": map[string]any{"app.kubernetes.io/part-of": "suite"}},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "Jammed", "message": "the lever is jammed"}}}}}
		eventually(t, 10*time.Second, func() error {
			_, err := d.Resource(widgets).Namespace(ns).Create(t.Context(), one, metav1.CreateOptions{})
			return err
		})
		start := time.Now()
		eventually(t, 5*time.Second, func() error {
			r := c.Model.Get(ref)
			if r == nil || len(r.Unassigned) != 1 || r.Unassigned[0].Object.Kind != "Widget" || r.Unassigned[0].Object.Group != "example.com" {
				return fmt.Errorf("not in the tree: %+v", r)
			}
			return nil
		})
		slowest = max(slowest, time.Since(start))
		if err := ext.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, func() error {
			if r := c.Model.Get(ref); r != nil || c.Registry.State(widgets, "") != "" {
				return fmt.Errorf("still there: %+v, %s", r, c.Registry.State(widgets, ""))
			}
			_, err := ext.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), crd.Name, metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("the CRD still exists")
			}
			return nil
		})
	}
	for _, i := range c.Registry.Informers() {
		if i.State != informers.Live {
			t.Errorf("%s is %s: %s", i.Key, i.State, i.Message)
		}
	}
	t.Logf("objects of a new kind appeared in the tree at most %.2f s after their creation and disappeared with the CRD", slowest.Seconds())
}
