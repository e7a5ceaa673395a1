// Package database holds to what is promised of databases and takes more than one of them, or more than
// their controller: that nobody is told a password, and that one that hangs keeps nobody else waiting.
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

// newStack is an application that uses a database of an image.
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
