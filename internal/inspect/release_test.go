package inspect_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

type unstruct = unstructured.Unstructured

// readObjects reads typed objects from YAML. Objects before the line "around" belong to the Helm release,
// the others do not.
func readObjects(t testing.TB, file string) []runtime.Object {
	t.Helper()
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []runtime.Object
	roots, rest, _ := strings.Cut(string(manifest), "\naround: related objects\n---\n")
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
			o.SetCreationTimestamp(metav1.NewTime(fixtures.Created))
			if i == 0 {
				o.SetAnnotations(helmAnnotations)
			}
			out = append(out, obj)
		}
	}
	return out
}

// chartRelease returns a typical release of a chart: two workloads behind one Service, a database with a
// claim for each pod, a DaemonSet, and their configuration.
func chartRelease(t testing.TB) inspect.GroupInput {
	t.Helper()
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: helmMeta("settings")}
	partial.UID = "ConfigMap-settings"
	return inspect.GroupInput{
		Kind: "HelmRelease", Namespace: "demo", Name: "shop", Now: fixtures.Now,
		CompleteKinds: []string{"ConfigMap", "PersistentVolumeClaim", "Service", "Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"},
		Objects:       append(readObjects(t, "testdata/release.yaml"), partial, customResource("Certificate", "tls", nil)),
	}
}
