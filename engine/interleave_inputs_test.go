package engine

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// input is what people do, in this order, while everything else happens in any order.
type input struct {
	name  string
	edits []edit
	// again is set when somebody takes children away, so that they are made again.
	again bool
}

// edit is one thing that somebody does.
type edit struct {
	what string
	when func(*world) bool // nil means at any time
	do   func(*server)
}

func (e edit) possible(w *world) bool { return e.when == nil || e.when(w) }

var (
	theService = ref{"AppService", "web"}
	theStack   = ref{"AppStack", "shop"}
)

// inputs are those that every search is made for.
var inputs = []*input{
	{name: "service", edits: []edit{
		create(theService, service("web:1")), modify(theService, image("web:2")), modify(theService, image("web:3")), modify(theService, image("web:1"))}},
	{name: "stack", edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("web", "web:1", "db"))),
		modify(theStack, components(part("db", "db:2"), part("web", "web:2", "db")))}},
	{name: "back", edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("web", "web:1", "db"))),
		modify(theStack, components(part("db", "db:2"), part("web", "web:2", "db"))),
		modify(theStack, components(part("db", "db:1"), part("web", "web:1", "db")))}},
	{name: "removal", edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("old", "old:1"), part("web", "web:1", "old"))),
		modify(theStack, components(part("db", "db:1"), part("web", "web:2", "db")))}},
	{name: "job", edits: []edit{
		create(theStack, stack(part("db", "db:1"), job("migrate", "migrate:1", "db"), part("web", "web:1", "migrate"))),
		modify(theStack, components(part("db", "db:1"), job("migrate", "migrate:2", "db"), part("web", "web:2", "migrate")))}},
	{name: "deletion", edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("web", "web:1", "db"))), remove(theStack, metav1.DeletePropagationBackground)}},
	{name: "foreground", edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("web", "web:1", "db"))), remove(theStack, metav1.DeletePropagationForeground)}},
	{name: "second life", edits: []edit{
		create(theService, service("web:1")), remove(theService, metav1.DeletePropagationBackground), create(theService, service("web:2"))}},
	{name: "second stack", edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("web", "web:1", "db"))), remove(theStack, metav1.DeletePropagationBackground),
		create(theStack, stack(part("db", "db:2"), part("web", "web:2", "db")))}},
	{name: "one name for two", edits: []edit{
		create(theService, service("web:1")), create(theStack, stack(called("web", part("front", "front:1")))),
		remove(theService, metav1.DeletePropagationBackground)}},
	{name: "drift", again: true, edits: []edit{
		create(theService, service("web:1")), tamper("Deployment", "web", image("bad:1")), modify(theService, image("web:2")),
		lose("Deployment", "web")}},
}

// extraInputs are for mistakes that need an occasion of their own.
var extraInputs = []*input{
	{name: "edit", edits: []edit{create(theService, service("web:1")), modify(theService, image("web:2"))}},
	{name: "return", again: true, edits: []edit{
		create(theStack, stack(part("db", "db:1"), part("web", "web:1"))), modify(theStack, components(part("db", "db:1"))),
		modify(theStack, components(part("db", "db:1"), part("web", "web:1")))}},
}

// service is an AppService with a Deployment and a Service.
func service(img string) func() client.Object {
	return func() client.Object {
		app := &appsapi.AppService{}
		app.Spec.Image, app.Spec.Ports = img, []appsapi.Port{{Port: 80}}
		return app
	}
}

func stack(parts ...Component) func() client.Object {
	return func() client.Object { return &appsapi.AppStack{Spec: appsapi.AppStackSpec{Components: parts}} }
}

// part is a component that is a service.
func part(name, img string, needs ...string) Component {
	c := Component{Name: name, DependsOn: needs, Service: &appsapi.ServiceComponent{}}
	c.Service.Image = img
	return c
}

// called is a component whose children have a name of their own.
func called(name string, c Component) Component {
	c.ResourceName = name
	return c
}

func job(name, img string, needs ...string) Component {
	c := Component{Name: name, DependsOn: needs, Job: &appsapi.JobComponent{}}
	c.Job.Image = img
	return c
}

// create waits until the name is free.
func create(r ref, made func() client.Object) edit {
	return edit{what: "create " + r.String(),
		when: func(w *world) bool { return w.server.objects[r] == nil },
		do: func(s *server) {
			if _, err := s.create(r, made()); err != nil {
				panic(err)
			}
		}}
}

func modify(r ref, f func(client.Object)) edit {
	return edit{what: "change " + r.String(), do: func(s *server) {
		if _, err := s.edit(r, "kubectl-edit", f); err != nil {
			panic(err)
		}
	}}
}

// tamper is a change of a child by hand, once it is there.
func tamper(kind, name string, f func(client.Object)) edit {
	e := modify(ref{kind, name}, f)
	e.when = func(w *world) bool { return w.server.objects[ref{kind, name}] != nil }
	return e
}

func remove(r ref, policy metav1.DeletionPropagation) edit {
	return edit{what: "delete " + r.String(), do: func(s *server) {
		if err := s.delete(r, nil, policy); err != nil {
			panic(err)
		}
	}}
}

// lose is a deletion of a child by hand.
func lose(kind, name string) edit {
	e := remove(ref{kind, name}, metav1.DeletePropagationBackground)
	e.when = func(w *world) bool { return w.server.objects[ref{kind, name}] != nil }
	return e
}

func image(img string) func(client.Object) {
	return func(obj client.Object) {
		switch o := obj.(type) {
		case *appsapi.AppService:
			o.Spec.Image = img
		case *appsv1.Deployment:
			o.Spec.Template.Spec.Containers[0].Image = img
		}
	}
}

func components(parts ...Component) func(client.Object) {
	return func(obj client.Object) { obj.(*appsapi.AppStack).Spec.Components = slices.Clone(parts) }
}
