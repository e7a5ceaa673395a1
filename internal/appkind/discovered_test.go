package appkind

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func guestbookCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	parseYAML(t, `
metadata:
  name: guestbooks.example.com
  labels: {apps.holdfast.dev/application: "true"}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Guestbook, plural: guestbooks, singular: guestbook, shortNames: [gb]}
  versions: [{name: v1alpha1, served: true}, {name: v1, served: true, storage: true}, {name: v2, served: false}]
`, &crd)
	return &crd
}

func parseYAML(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func guestbookKind(t *testing.T) *Kind {
	t.Helper()
	k, err := FromCRD(guestbookCRD(t))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestFromCRD(t *testing.T) {
	k := guestbookKind(t)
	if k.Name() != "Guestbook.example.com" || k.Version != "v1" || ParseName(k.Name()) != k.GroupKind() {
		t.Errorf("got kind %s %s", k.Name(), k.Version)
	}
	for _, name := range []string{"guestbook", "Guestbooks", "gb", "gb.example.com", "guestbooks.v1.example.com"} {
		if Find([]*Kind{k}, name) != k {
			t.Errorf("%s is not found", name)
		}
	}
	if Find([]*Kind{k}, "guestbook.example.org") != nil {
		t.Error("a kind of another group is found")
	}
	app := k.New()
	if Of(app) != k || app.GetObjectKind().GroupVersionKind() != k.GroupVersionKind || Title(app) != "Guestbook /" {
		t.Errorf("New returns %s of %v", Title(app), app.GetObjectKind().GroupVersionKind())
	}
	if Of(app.DeepCopyObject().(Application)) != k {
		t.Error("a copy has no kind")
	}
}

func TestFromCRDKeys(t *testing.T) {
	crd := guestbookCRD(t)
	if k, err := FromCRD(crd); err != nil || k.Keys != appsapi.DefaultKeys {
		t.Errorf("without annotations: %v, %v", k, err)
	}
	crd.Annotations = map[string]string{appsapi.AnnotationFieldManager: "guestbook", appsapi.AnnotationFinalizer: "example.com/data"}
	crd.Annotations[appsapi.AnnotationLabelPrefix] = "guestbook.example.com"
	want := appsapi.NewKeys("guestbook.example.com", "guestbook")
	want.Finalizer = "example.com/data"
	if k, err := FromCRD(crd); err != nil || *k.Keys != *want {
		t.Errorf("got %v, %v", k, err)
	}
}

func TestFromCRDRejects(t *testing.T) {
	for name, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"built-in group":    func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Group = appsapi.GroupName },
		"cluster scope":     func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = apiextensionsv1.ClusterScoped },
		"no served version": func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = crd.Spec.Versions[2:] },
	} {
		t.Run(name, func(t *testing.T) {
			crd := guestbookCRD(t)
			change(crd)
			if k, err := FromCRD(crd); err == nil {
				t.Errorf("got kind %s", k.Name())
			}
		})
	}
}

func TestRegister(t *testing.T) {
	k := guestbookKind(t)
	Register(k)
	Register(k)
	if Lookup(k.GroupKind()) != k || len(Discovered()) != 1 {
		t.Errorf("registered: %v", Discovered())
	}
	Unregister(k.GroupKind())
	if Lookup(k.GroupKind()) != nil {
		t.Error("it is still registered")
	}
}

func guestbook(t *testing.T, status string) Application {
	t.Helper()
	u := &unstructured.Unstructured{}
	parseYAML(t, `{apiVersion: example.com/v1, kind: Guestbook, metadata: {name: visitors, namespace: demo, uid: u1}, status: `+status+`}`, &u.Object)
	app, ok := guestbookKind(t).Application(u)
	if !ok {
		t.Fatal("an unstructured object is not an application")
	}
	return app
}

const waitingStatus = `{observedGeneration: 2, componentsReady: 0/2, conditions: [{type: Ready, status: "False", reason: WaitingForDependency}], components: [
  {name: store, type: Stateful, resourceName: visitors-store, health: Progressing, ready: 0, desired: 1},
  {name: web, type: Service, resourceName: visitors-web, health: Waiting, reason: WaitingForDependency, dependsOn: [store], ready: 0, desired: 0}]}`

func TestDiscoveredStatus(t *testing.T) {
	app := guestbook(t, waitingStatus)
	if s := app.ApplicationStatus(); s.ObservedGeneration != 2 || len(s.Conditions) != 1 || s.Conditions[0].Reason != "WaitingForDependency" {
		t.Errorf("got status %+v", s)
	}
	if got := Of(app).ReadyCount(app); got != "0/2" {
		t.Errorf("%s components are ready", got)
	}
	components := Components(app)
	if len(components) != 2 || components[0].Stateful == nil || components[1].Service == nil || components[1].DependsOn[0] != "store" {
		t.Errorf("got components %+v", components)
	}
	if got := Components(guestbook(t, `{conditions: none, components: 1}`)); len(got) != 0 {
		t.Errorf("a status of another shape has components %+v", got)
	}
}

// observed is a component as Observe sees it.
type observed struct {
	Name, Type, Workload, WorkloadID string
	DependsOn, Children              []string
}

func observe(app Application, objects ...runtime.Object) []observed {
	var out []observed
	for _, c := range Observe(app, objects) {
		o := observed{Name: c.Name, Type: string(c.Type), Workload: c.Workload.Kind.Kind + "/" + c.Workload.Name, WorkloadID: c.WorkloadID, DependsOn: c.DependsOn}
		for _, child := range c.Children {
			o.Children = append(o.Children, child.Kind.Kind+"/"+child.Name)
		}
		out = append(out, o)
	}
	return out
}

func TestObserveDiscovered(t *testing.T) {
	controller := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Guestbook", Name: "visitors", UID: "u1", Controller: new(true)}
	child := func(component, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{appsapi.LabelComponent: component, appsapi.DefaultKeys.Workload: "id-" + name},
			Annotations: map[string]string{appsapi.DefaultKeys.DependsOn: "store"}, OwnerReferences: []metav1.OwnerReference{controller}}
	}
	deployment := func(name string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: child("web", name)}
		d.SetGroupVersionKind(desired.KindDeployment)
		return d
	}
	service := &corev1.Service{ObjectMeta: child("web", "visitors-web")}
	service.SetGroupVersionKind(desired.KindService)
	store := observed{"store", "Stateful", "StatefulSet/visitors-store", "statefulset-visitors-store", nil, []string{"StatefulSet/visitors-store"}}
	tests := map[string]struct {
		status  string
		objects []runtime.Object
		want    []observed
	}{
		"without children": {status: waitingStatus, want: []observed{store,
			{"web", "Service", "Deployment/visitors-web", "deployment-visitors-web", []string{"store"}, []string{"Deployment/visitors-web"}}}},
		"with children": {status: waitingStatus, objects: []runtime.Object{service, deployment("old"), deployment("visitors-web")}, want: []observed{store,
			{"web", "Service", "Deployment/visitors-web", "id-visitors-web", []string{"store"}, []string{"Deployment/visitors-web", "Service/visitors-web"}}}},
		"without components in the status": {status: `{}`, objects: []runtime.Object{service, deployment("visitors-web")}, want: []observed{
			{"web", "Service", "Deployment/visitors-web", "id-visitors-web", []string{"store"}, []string{"Deployment/visitors-web", "Service/visitors-web"}}}},
		"of another application": {status: `{}`, objects: []runtime.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, observe(guestbook(t, tc.status), tc.objects...)); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
		})
	}
}
