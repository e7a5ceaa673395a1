// Package database tests properties of databases that involve more than one database or controller: passwords do not
// leak, and an unresponsive database does not delay other applications.
package database

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

func TestMain(m *testing.M) { harness.Main(m) }

func allPodsRun(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }

// newStack returns an application that uses a database with the given image.
func newStack(namespace, name, image string, change func(*appsapi.DatabaseComponent)) *appsapi.AppStack {
	db := &appsapi.DatabaseComponent{Image: image, Storage: appsapi.DatabaseStorage{Size: resource.MustParse("1Gi")}}
	change(db)
	web := appsapi.Component{Name: "web", Bindings: []appsapi.Binding{{Component: "db"}}, Service: &appsapi.ServiceComponent{}}
	web.Service.Image = "shop/web:1"
	return &appsapi.AppStack{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsapi.AppStackSpec{Components: []appsapi.Component{{Name: "db", Database: db}, web}},
	}
}

func noChange(*appsapi.DatabaseComponent) {}
