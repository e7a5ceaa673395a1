package appkind

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Users without access to Secrets can read revisions.
func TestCloudManagerRevisionSpecOmitsPassword(t *testing.T) {
	cm := &appsapi.CloudManager{Spec: appsapi.CloudManagerSpec{
		DeletionPolicy: appsapi.DeletionDelete,
		DB: appsapi.CloudManagerDatabase{RootPass: "123456", StatefulSet: appsapi.CloudManagerStatefulSet{
			Image: "mariadb:10.3.35", Storage: appsapi.CloudManagerStorage{Size: resource.MustParse("20Gi")},
		}},
	}}
	before := cm.DeepCopy()
	spec, limit := CloudManagerRevisionSpec(cm)
	got, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"front":{"deployment":{"image":""}},"identity":{"deployment":{"image":""}},"db":{"statefulSet":{"image":"mariadb:10.3.35","storage":{"size":"20Gi"}}}}`
	if string(got) != want || limit != 0 {
		t.Errorf("stored %s (limit %d), want %s", got, limit, want)
	}
	if diff := cmp.Diff(before, cm); diff != "" {
		t.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}

// Operations such as suspending do not change the components of an application.
func TestAppStackRevisionSpecOmitsOperations(t *testing.T) {
	stack := &appsapi.AppStack{Spec: appsapi.AppStackSpec{
		DeletionPolicy: appsapi.DeletionDelete, Operations: appsapi.Operations{Suspend: true}, RevisionHistoryLimit: new(int32(3)),
		Components: []appsapi.Component{{Name: "web"}},
	}}
	spec, limit := AppStackRevisionSpec(stack)
	if diff := cmp.Diff(any(appsapi.AppStackSpec{Components: []appsapi.Component{{Name: "web"}}}), spec); diff != "" || limit != 3 {
		t.Errorf("limit %d, want 3; stored (-want +got):\n%s", limit, diff)
	}
}
