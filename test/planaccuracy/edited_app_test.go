package planaccuracy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// rootPass must never appear in a plan.
const rootPass = "pass-nobody-may-read"

// editedApp is the application under test; exactly one kind is set.
type editedApp struct {
	service      *appsapi.AppService
	stack        *appsapi.AppStack
	cloudManager *appsapi.CloudManager
	// manifest is a manifest of an AppStack "shop" that is not edited.
	manifest string
	// removed are the removed components with storage.
	removed []appsapi.Component
	// counter makes names unique.
	counter int
}

func (s *editedApp) emptyObject() appkind.Application {
	switch {
	case s.service != nil:
		return &appsapi.AppService{ObjectMeta: s.service.ObjectMeta}
	case s.stack != nil:
		return &appsapi.AppStack{ObjectMeta: s.stack.ObjectMeta}
	case s.manifest != "":
		return &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	}
	return &appsapi.CloudManager{ObjectMeta: s.cloudManager.ObjectMeta}
}

// yaml returns the manifest without empty fields.
func (s *editedApp) yaml() string {
	if s.manifest != "" {
		return s.manifest
	}
	var obj any = s.cloudManager
	switch {
	case s.service != nil:
		obj = s.service
	case s.stack != nil:
		obj = s.stack
	}
	content, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	var all map[string]any
	if err := json.Unmarshal(content, &all); err != nil {
		panic(err)
	}
	delete(all, "status")
	text, err := yaml.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (s *editedApp) copy() *editedApp {
	out := &editedApp{counter: s.counter, removed: slices.Clone(s.removed)}
	if s.service != nil {
		out.service = s.service.DeepCopy()
	}
	if s.stack != nil {
		out.stack = s.stack.DeepCopy()
	}
	if s.cloudManager != nil {
		out.cloudManager = s.cloudManager.DeepCopy()
	}
	return out
}

func typeAndObjectMeta(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: appsapi.GroupVersion.String(), Kind: kind}, metav1.ObjectMeta{Name: name}
}

// newEditedApp returns a random application. Most are AppStacks, because they cover all features.
func newEditedApp(r *rand.Rand, number int) *editedApp {
	s := &editedApp{counter: 1}
	switch number % 5 {
	case 1:
		s.service = &appsapi.AppService{}
		s.service.TypeMeta, s.service.ObjectMeta = typeAndObjectMeta("AppService", "web")
		s.service.Spec.ServiceComponent = randomService(r)
	case 3:
		s.cloudManager = &appsapi.CloudManager{}
		s.cloudManager.TypeMeta, s.cloudManager.ObjectMeta = typeAndObjectMeta("CloudManager", "cm")
		s.cloudManager.Spec.Front.Deployment = appsapi.CloudManagerDeployment{Image: "front:1", Name: "cm-front"}
		s.cloudManager.Spec.Identity.Deployment = appsapi.CloudManagerDeployment{Image: "identity:1", Name: "cm-identity", Ports: []appsapi.Port{{Port: 8080}}}
		s.cloudManager.Spec.DB.StatefulSet = appsapi.CloudManagerStatefulSet{Image: "mariadb:10", Name: "cm-db", Storage: appsapi.CloudManagerStorage{Size: resource.MustParse("1Gi")}}
		s.cloudManager.Spec.DB.RootPass = rootPass
		s.cloudManager.Annotations = map[string]string{appsapi.DefaultKeys.Trial: "true"}
	default:
		s.stack = &appsapi.AppStack{}
		s.stack.TypeMeta, s.stack.ObjectMeta = typeAndObjectMeta("AppStack", "shop")
		s.stack.Spec.RevisionHistoryLimit = new(int32(3))
		s.stack.Spec.Components = []appsapi.Component{
			{Name: "db", Stateful: randomStateful(r)},
			{Name: "migrate", DependsOn: []string{"db"}, Job: randomJob(r)},
			{Name: "api", DependsOn: []string{"migrate"}, Bindings: []appsapi.Binding{{Component: "db"}}, Service: ptr(randomService(r))},
			{Name: "web", DependsOn: []string{"api"}, Service: ptr(randomService(r))},
		}
		if number%5 == 2 {
			s.stack.Spec.Components[0] = appsapi.Component{Name: "db", Database: randomDatabase(r)}
		}
	}
	return s
}

func ptr[T any](v T) *T { return &v }

func randomService(r *rand.Rand) appsapi.ServiceComponent {
	c := appsapi.ServiceComponent{}
	c.Image = "app:1"
	c.Ports = []appsapi.Port{{Name: "http", Port: 80, TargetPort: 8080}}
	if r.IntN(2) == 0 {
		c.Replicas = new(int32(1 + r.IntN(3)))
	}
	if r.IntN(2) == 0 {
		c.Env = []corev1.EnvVar{{Name: "MODE", Value: "prod"}}
	}
	if r.IntN(3) == 0 {
		c.Config.Files = []appsapi.ConfigFile{{Path: "/etc/app/app.yaml", Content: "a: 1\n"}}
	}
	return c
}

func randomStateful(r *rand.Rand) *appsapi.StatefulComponent {
	c := &appsapi.StatefulComponent{}
	c.Image = "db:1"
	c.Ports = []appsapi.Port{{Name: "sql", Port: 5432}}
	c.Replicas = new(int32(1 + r.IntN(2)))
	c.Storage = []appsapi.StorageSpec{{Name: "data", MountPath: "/data", Size: resource.MustParse("1Gi")}}
	if r.IntN(2) == 0 {
		c.Credentials = []appsapi.Credential{{Key: "password", Env: "PASSWORD"}}
	}
	return c
}

func randomDatabase(r *rand.Rand) *appsapi.DatabaseComponent {
	c := &appsapi.DatabaseComponent{Version: "10.11", Storage: appsapi.DatabaseStorage{Size: resource.MustParse("1Gi")}}
	if r.IntN(2) == 0 {
		c.Database = "shop"
	}
	return c
}

func randomJob(r *rand.Rand) *appsapi.JobComponent {
	c := &appsapi.JobComponent{}
	c.Image = fmt.Sprintf("migrate:%d", 1+r.IntN(3))
	return c
}
