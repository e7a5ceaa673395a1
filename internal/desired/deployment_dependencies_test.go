package desired

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestDependsOnDriftIsReverted changes the dependencies recorded on a Deployment. The hash shows that its pods were
// created with the dependencies of the spec, so the annotation is corrected and nothing else is recorded.
func TestDependsOnDriftIsReverted(t *testing.T) {
	c := appsapi.Component{Name: "web", DependsOn: []string{"db"}, Service: &appsapi.ServiceComponent{}}
	c.Service.Image = "shop/web:1"
	child := Build(Owner{Keys: appsapi.DefaultKeys, Namespace: "shop", Name: "shop", UID: "us"}, ExpandComponents([]appsapi.Component{c}), ClusterState{})[0].Children[0]
	made, err := child.Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, theirs := range []string{"", "theirs", "db,theirs"} {
		live := &appsv1.Deployment{}
		live.Spec.Selector = &metav1.LabelSelector{MatchLabels: podSelector(appsapi.DefaultKeys, WorkloadID(KindDeployment.Kind, child.Name))}
		live.Annotations = maps.Clone(made.Annotations())
		live.Annotations[appsapi.DefaultKeys.AppliedHash] = made.Hash()
		live.Annotations[appsapi.DefaultKeys.DependsOn] = theirs
		now, err := child.Render(live)
		if err != nil {
			t.Fatal(err)
		}
		if now.Hash() != made.Hash() || now.Annotations()[appsapi.DefaultKeys.DependsOn] != "db" || now.Annotations()[appsapi.DefaultKeys.PreviousDependsOn] != "" {
			t.Errorf("%q: got %v", theirs, now.Annotations())
		}
		if live.Annotations[appsapi.DefaultKeys.DependsOn] != theirs {
			t.Error("the live object was changed")
		}
	}
}
