package reconcile

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// scenario is a sequence of user edits. Everything else happens in any order.
type scenario struct {
	name  string
	edits []edit
	// allowsRecreate is set if the user deletes children, so that they are created again.
	allowsRecreate bool
}

// edit is one action of a user.
type edit struct {
	name string
	when func(*world) bool // nil means at any time
	do   func(*server)
}

func (e edit) isEnabled(w *world) bool { return e.when == nil || e.when(w) }

var (
	appServiceRef = ref{"AppService", "web"}
	appStackRef   = ref{"AppStack", "shop"}
)

// scenarios are searched by TestInterleavings.
var scenarios = []*scenario{
	{name: "service", edits: []edit{
		createObject(appServiceRef, newAppService("web:1")), modifyObject(appServiceRef, setImage("web:2")), modifyObject(appServiceRef, setImage("web:3")), modifyObject(appServiceRef, setImage("web:1"))}},
	{name: "stack", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("web", "web:1", "db"))),
		modifyObject(appStackRef, setComponents(serviceComponent("db", "db:2"), serviceComponent("web", "web:2", "db")))}},
	{name: "back", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("web", "web:1", "db"))),
		modifyObject(appStackRef, setComponents(serviceComponent("db", "db:2"), serviceComponent("web", "web:2", "db"))),
		modifyObject(appStackRef, setComponents(serviceComponent("db", "db:1"), serviceComponent("web", "web:1", "db")))}},
	{name: "removal", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("old", "old:1"), serviceComponent("web", "web:1", "old"))),
		modifyObject(appStackRef, setComponents(serviceComponent("db", "db:1"), serviceComponent("web", "web:2", "db")))}},
	{name: "job", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), jobComponent("migrate", "migrate:1", "db"), serviceComponent("web", "web:1", "migrate"))),
		modifyObject(appStackRef, setComponents(serviceComponent("db", "db:1"), jobComponent("migrate", "migrate:2", "db"), serviceComponent("web", "web:2", "migrate")))}},
	{name: "deletion", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("web", "web:1", "db"))), deleteObject(appStackRef, metav1.DeletePropagationBackground)}},
	{name: "foreground", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("web", "web:1", "db"))), deleteObject(appStackRef, metav1.DeletePropagationForeground)}},
	{name: "recreated service", edits: []edit{
		createObject(appServiceRef, newAppService("web:1")), deleteObject(appServiceRef, metav1.DeletePropagationBackground), createObject(appServiceRef, newAppService("web:2"))}},
	{name: "recreated stack", edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("web", "web:1", "db"))), deleteObject(appStackRef, metav1.DeletePropagationBackground),
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:2"), serviceComponent("web", "web:2", "db")))}},
	{name: "name conflict", edits: []edit{
		createObject(appServiceRef, newAppService("web:1")), createObject(appStackRef, newAppStack(withResourceName("web", serviceComponent("front", "front:1")))),
		deleteObject(appServiceRef, metav1.DeletePropagationBackground)}},
	{name: "drift", allowsRecreate: true, edits: []edit{
		createObject(appServiceRef, newAppService("web:1")), modifyChild("Deployment", "web", setImage("bad:1")), modifyObject(appServiceRef, setImage("web:2")),
		deleteChild("Deployment", "web")}},
}

// bugScenarios trigger injected bugs that the scenarios do not find quickly.
var bugScenarios = []*scenario{
	{name: "edit", edits: []edit{createObject(appServiceRef, newAppService("web:1")), modifyObject(appServiceRef, setImage("web:2"))}},
	{name: "return", allowsRecreate: true, edits: []edit{
		createObject(appStackRef, newAppStack(serviceComponent("db", "db:1"), serviceComponent("web", "web:1"))), modifyObject(appStackRef, setComponents(serviceComponent("db", "db:1"))),
		modifyObject(appStackRef, setComponents(serviceComponent("db", "db:1"), serviceComponent("web", "web:1")))}},
}

// newAppService returns an AppService with a Deployment and a Service.
func newAppService(img string) func() client.Object {
	return func() client.Object {
		app := &appsapi.AppService{}
		app.Spec.Image, app.Spec.Ports = img, []appsapi.Port{{Port: 80}}
		return app
	}
}

func newAppStack(list ...appsapi.Component) func() client.Object {
	return func() client.Object { return &appsapi.AppStack{Spec: appsapi.AppStackSpec{Components: list}} }
}

// serviceComponent returns a component of type Service.
func serviceComponent(name, img string, dependsOn ...string) appsapi.Component {
	c := appsapi.Component{Name: name, DependsOn: dependsOn, Service: &appsapi.ServiceComponent{}}
	c.Service.Image = img
	return c
}

// withResourceName sets the name of the children of a component.
func withResourceName(name string, c appsapi.Component) appsapi.Component {
	c.ResourceName = name
	return c
}

func jobComponent(name, img string, dependsOn ...string) appsapi.Component {
	c := appsapi.Component{Name: name, DependsOn: dependsOn, Job: &appsapi.JobComponent{}}
	c.Job.Image = img
	return c
}

// createObject waits until the name is free.
func createObject(r ref, newObject func() client.Object) edit {
	return edit{name: "create " + r.String(),
		when: func(w *world) bool { return w.server.objects[r] == nil },
		do: func(s *server) {
			if _, err := s.create(r, newObject()); err != nil {
				panic(err)
			}
		}}
}

func modifyObject(r ref, f func(client.Object)) edit {
	return edit{name: "change " + r.String(), do: func(s *server) {
		if _, err := s.edit(r, "kubectl-edit", f); err != nil {
			panic(err)
		}
	}}
}

// modifyChild edits a child once it exists.
func modifyChild(kind, name string, f func(client.Object)) edit {
	e := modifyObject(ref{kind, name}, f)
	e.when = func(w *world) bool { return w.server.objects[ref{kind, name}] != nil }
	return e
}

func deleteObject(r ref, policy metav1.DeletionPropagation) edit {
	return edit{name: "delete " + r.String(), do: func(s *server) {
		if err := s.delete(r, nil, policy); err != nil {
			panic(err)
		}
	}}
}

// deleteChild deletes a child.
func deleteChild(kind, name string) edit {
	e := deleteObject(ref{kind, name}, metav1.DeletePropagationBackground)
	e.when = func(w *world) bool { return w.server.objects[ref{kind, name}] != nil }
	return e
}

func setImage(img string) func(client.Object) {
	return func(obj client.Object) {
		switch o := obj.(type) {
		case *appsapi.AppService:
			o.Spec.Image = img
		case *appsv1.Deployment:
			o.Spec.Template.Spec.Containers[0].Image = img
		}
	}
}

func setComponents(list ...appsapi.Component) func(client.Object) {
	return func(obj client.Object) { obj.(*appsapi.AppStack).Spec.Components = slices.Clone(list) }
}
