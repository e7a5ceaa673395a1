package view_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast-dev/holdfast/internal/testutil/scene"
	"github.com/holdfast-dev/holdfast/internal/view"
)

type unstruct = unstructured.Unstructured

// objects reads typed objects from YAML: those before the line "around" are installed by
// Helm, the others are not.
func objects(t testing.TB, file string) []runtime.Object {
	t.Helper()
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	roots, rest, _ := strings.Cut(string(manifest), "\naround: what is around it\n---\n")
	for i, part := range []string{strings.TrimSuffix(roots, "\n---"), rest} {
		for _, doc := range strings.Split(part, "\n---\n") {
			obj, gvk, err := clientgoscheme.Codecs.UniversalDeserializer().Decode([]byte(doc), nil, nil)
			if err != nil {
				t.Fatalf("%v in:\n%s", err, doc)
			}
			obj.GetObjectKind().SetGroupVersionKind(*gvk)
			o := obj.(metav1.Object)
			if o.GetNamespace() == "" && gvk.Kind != "PersistentVolume" && gvk.Kind != "ClusterRole" {
				o.SetNamespace("demo")
			}
			o.SetUID(types.UID(gvk.Kind + "-" + o.GetName()))
			o.SetCreationTimestamp(metav1.NewTime(scene.Created))
			if i == 0 {
				o.SetAnnotations(helm)
			}
			out = append(out, obj)
		}
	}
	return out
}

// chart is a release as charts make them: two workloads behind one Service, a database with a
// claim for each pod, an agent on each node, and what they are configured by.
func chart(t testing.TB) view.GroupInput {
	t.Helper()
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta("settings")}
	partial.UID = "ConfigMap-settings"
	return view.GroupInput{
		Kind: "HelmRelease", Namespace: "demo", Name: "shop", Now: scene.Now,
		Whole:   []string{"ConfigMap", "PersistentVolumeClaim", "Service", "Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"},
		Objects: append(objects(t, "testdata/release.yaml"), partial, crd("Certificate", "tls", nil)),
	}
}
