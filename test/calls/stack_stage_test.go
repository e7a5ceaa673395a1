package calls

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

// shop is a stack of three services and a job. The Secret and the ConfigMap of its api
// have its name.
//
//	migrate (done) <-- api <-- web      lone
const shop = `
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

// childrenOfStack are a Job, three Deployments and two Services.
const childrenOfStack = 6

// stackNamed is how stacks are called; whatever belongs to one begins with that.
const stackNamed = "stack-"

func stackName(i int) string { return fmt.Sprintf("%s%04d", stackNamed, i) }

func isStack(name string) bool { return strings.HasPrefix(name, stackNamed) }

func resourceOf(name string) schema.GroupVersionResource {
	if isStack(name) {
		return appStacks
	}
	return appServices
}

// stackNames are the AppStacks that stay for all rows.
func (s *stage) stackNames() []string {
	names := make([]string, *stacks)
	for i := range names {
		names[i] = stackName(i)
	}
	return names
}

func (s *stage) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.ns, Name: name}
}

func aSecret(meta metav1.ObjectMeta) client.Object {
	return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": "first", "unused": "first"}}
}
func aConfigMap(meta metav1.ObjectMeta) client.Object {
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"MODE": "shop"}}
}

// newSources creates what a stack takes its configuration from.
func (s *stage) newSources(name string) {
	s.Helper()
	s.check(s.Create(s.Context(), aSecret(s.meta(name))))
	s.check(s.Create(s.Context(), aConfigMap(s.meta(name))))
}

// newStack creates an AppStack.
func (s *stage) newStack(name string) {
	s.Helper()
	stack := &appsapi.AppStack{ObjectMeta: s.meta(name)}
	s.check(yaml.UnmarshalStrict(fmt.Appendf(nil, shop, name), &stack.Spec))
	s.check(s.Create(s.Context(), stack))
}

// stackParts are the stacks, their children and their revisions, by kind.
func (s *stage) stackParts() [][]client.Object {
	s.Helper()
	parts := make([][]client.Object, 0, 5)
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
		parts, found = append(parts, objects), found+len(objects)
	}
	if want := *stacks * (1 + childrenOfStack + 1); found != want {
		s.Fatalf("the stacks have %d parts, and not %d", found, want)
	}
	return parts
}
