package desired

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestDependsOnDriftIsReverted changes whom a Deployment says that it depends on: the hash tells
// with which edges its pods were made, so one write puts them back and notes nothing else.
func TestDependsOnDriftIsReverted(t *testing.T) {
	c := appsapi.Component{Name: "web", DependsOn: []string{"db"}, Service: &appsapi.ServiceComponent{}}
	c.Service.Image = "shop/web:1"
	child := Build(Owner{Namespace: "shop", Name: "shop", UID: "us"}, []appsapi.Component{c}, ClusterState{})[0].Children[0]
	made, err := child.Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, theirs := range []string{"", "theirs", "db,theirs"} {
		live := &appsv1.Deployment{}
		live.Spec.Selector = &metav1.LabelSelector{MatchLabels: podSelector(WorkloadID(KindDeployment.Kind, child.Name))}
		live.Annotations = maps.Clone(made.Annotations())
		live.Annotations[appsapi.AnnotationAppliedHash] = made.Hash()
		live.Annotations[appsapi.AnnotationDependsOn] = theirs
		now, err := child.Render(live)
		if err != nil {
			t.Fatal(err)
		}
		if now.Hash() != made.Hash() || now.Annotations()[appsapi.AnnotationDependsOn] != "db" || now.Annotations()[appsapi.AnnotationPreviousDependsOn] != "" {
			t.Errorf("%q: got %v", theirs, now.Annotations())
		}
		if live.Annotations[appsapi.AnnotationDependsOn] != theirs {
			t.Error("the live object was changed")
		}
	}
}
