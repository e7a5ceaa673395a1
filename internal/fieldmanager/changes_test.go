package fieldmanager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

func pathsOf(changes []objdiff.FieldChange) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Type+" "+c.Path.String())
	}
	return out
}

func TestChanges(t *testing.T) {
	before := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "1", Generation: 1, Labels: map[string]string{"a": "1"}}}
	before.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "one"}}
	after := before.DeepCopy()
	after.ResourceVersion, after.Generation, after.Status.Replicas, after.Labels = "2", 2, 3, nil
	after.Spec.Template.Spec.Containers[0].Image = "two"
	after.Spec.Template.Spec.Containers = append(after.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "x"})
	got, err := Changes(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Removed metadata.labels", "Changed spec.template.spec.containers[app].image", "Set spec.template.spec.containers[proxy]"}
	if diff := cmp.Diff(want, pathsOf(got)); diff != "" {
		t.Error(diff)
	}
}

// TestDriftIgnoresUndeclaredFields checks that fields of other managers are not drift.
func TestDriftIgnoresUndeclaredFields(t *testing.T) {
	owner := desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: "u"}
	c := appsapi.Component{Name: "web", ResourceName: "web", Service: &appsapi.ServiceComponent{}}
	c.Service.Image = "one"
	config, err := desired.Build(owner, desired.ExpandComponents([]appsapi.Component{c}), desired.ClusterState{})[0].Children[0].Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Fields()
	if err != nil {
		t.Fatal(err)
	}
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: config.Labels(), Annotations: config.Annotations()}}
	merged, err := Merge("holdfast", want, live)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, live); err != nil {
		t.Fatal(err)
	}
	live.Spec.Replicas = new(int32(7)) // of an autoscaler
	live.Spec.Template.Spec.Containers = append(live.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy"})
	drift, err := Drift(config, live)
	if err != nil || len(drift) > 0 {
		t.Errorf("undeclared fields are drift: %v, %v", pathsOf(drift), err)
	}
	live.Spec.Template.Spec.Containers[0].Image = "two"
	delete(live.Labels, "app.kubernetes.io/managed-by")
	if drift, err = Drift(config, live); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Removed metadata.labels[app.kubernetes.io/managed-by]", "Changed spec.template.spec.containers[app].image"}, pathsOf(drift)); diff != "" {
		t.Error(diff)
	}
}
