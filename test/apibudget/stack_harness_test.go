package apibudget

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// stackSpec is a stack of three services and a job. The component api uses a Secret and a ConfigMap with the name of
// the stack.
//
//	migrate (done) <-- api <-- web      lone
const stackSpec = `
components:
- {name: migrate, job: {image: "shop/migrate:1"}}
- name: api
  dependsOn: [migrate]
  service:
    image: shop/api:1
    ports: [{port: 8080}]
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: %[1]s, key: password}}}]
    envFrom: [{configMapRef: {name: %[1]s}}]
- name: web
  bindings: [{component: api}]
  service: {image: "shop/web:1", ports: [{name: http, port: 80, targetPort: 8080}]}
- {name: lone, service: {image: "shop/lone:1", replicas: 1}}
`

// childrenPerStack counts a Job, three Deployments and two Services.
const childrenPerStack = 6

// stackPrefix is the prefix of the names of stacks and their objects.
const stackPrefix = "stack-"

func stackName(i int) string { return fmt.Sprintf("%s%04d", stackPrefix, i) }

func isStack(name string) bool { return strings.HasPrefix(name, stackPrefix) }

func resourceOf(name string) schema.GroupVersionResource {
	if isStack(name) {
		return appStacks
	}
	return appServices
}

// stackNames are the AppStacks of all rows.
func (s *harness) stackNames() []string {
	names := make([]string, *stacks)
	for i := range names {
		names[i] = stackName(i)
	}
	return names
}

func (s *harness) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.ns, Name: name}
}

func newSecret(meta metav1.ObjectMeta) client.Object {
	return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": "first", "unused": "first"}}
}
func newConfigMap(meta metav1.ObjectMeta) client.Object {
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"MODE": "shop"}}
}

// createConfigSources creates the Secret and the ConfigMap of a stack.
func (s *harness) createConfigSources(name string) {
	s.Helper()
	s.check(s.Create(s.Context(), newSecret(s.objectMeta(name))))
	s.check(s.Create(s.Context(), newConfigMap(s.objectMeta(name))))
}

// createStack creates an AppStack.
func (s *harness) createStack(name string) {
	s.Helper()
	stack := &appsapi.AppStack{ObjectMeta: s.objectMeta(name)}
	s.check(yaml.UnmarshalStrict(fmt.Appendf(nil, stackSpec, name), &stack.Spec))
	s.check(s.Create(s.Context(), stack))
}

// stackObjects returns the stacks, their children and their revisions, by kind.
func (s *harness) stackObjects() [][]client.Object {
	s.Helper()
	objectsByKind := make([][]client.Object, 0, 5)
	var found int
	for _, list := range []client.ObjectList{
		&appsapi.AppStackList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &batchv1.JobList{}, &appsv1.ControllerRevisionList{},
	} {
		s.must(s.List(s.Context(), list, client.InNamespace(s.ns)))
		var objects []client.Object
		s.must(meta.EachListItem(list, func(item runtime.Object) error {
			if obj := item.(client.Object); isStack(obj.GetName()) {
				objects = append(objects, obj)
			}
			return nil
		}))
		objectsByKind, found = append(objectsByKind, objects), found+len(objects)
	}
	if want := *stacks * (1 + childrenPerStack + 1); found != want {
		s.Fatalf("the stacks have %d objects, want %d", found, want)
	}
	return objectsByKind
}
