package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// step is a user action and its expected result. The steps of a scenario depend on each other; a plan injects a fault
// into one of them.
type step struct {
	name string
	run  func(*user, context.Context) error
	// want is the Ready condition of each application as "status/reason", or "gone"; for other objects it is whether
	// they exist.
	want map[string]string
}

const (
	readyStatus        = "True/Reconciled"
	nameConflictStatus = "False/NameConflict"
	absent             = "gone"
	present            = "there"
)

// user changes objects in one namespace.
type user struct {
	client.Client
	namespace string
}

// wantOnly returns the step with the expected result of one application only.
func (s step) wantOnly(app string) step {
	s.want = map[string]string{app: s.want[app]}
	return s
}

var bothReady = map[string]string{"AppService/solo": readyStatus, "AppStack/shop": readyStatus}

// scenarios are all scenarios. Step names are unique, so that a plan identifies its scenario by its step.
var scenarios = [][]step{scenario, dataScenario, databaseScenario}

// allSteps returns the steps of all scenarios.
func allSteps() []step { return slices.Concat(scenarios...) }

// scenarioOf returns the scenario with a step, or nil.
func scenarioOf(name string) []step {
	for _, steps := range scenarios {
		if slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			return steps
		}
	}
	return nil
}

// scenario contains common user actions.
var scenario = []step{
	{"install-service", (*user).installService, map[string]string{"AppService/solo": readyStatus}},
	{"install-stack", (*user).installStack, bothReady},
	{"upgrade", func(u *user, ctx context.Context) error {
		return u.editSpecs(ctx, func(app *appsapi.AppService) {
			app.Spec.Image, app.Spec.Config.Files[0].Content = "shop/solo:2", "color: blue"
		}, func(components map[string]*appsapi.Component) {
			components["api"].Service.Image = "shop/api:2"
			components["web"].Service.Image = "shop/web:2"
		})
	}, bothReady},
	{"scale", func(u *user, ctx context.Context) error {
		return u.editSpecs(ctx, func(app *appsapi.AppService) { app.Spec.Replicas = new(int32(1)) },
			func(components map[string]*appsapi.Component) { components["web"].Service.Replicas = new(int32(3)) })
	}, bothReady},
	{"config", (*user).changeConfig, bothReady},
	{"rename", func(u *user, ctx context.Context) error {
		return u.editSpecs(ctx, nil, func(components map[string]*appsapi.Component) {
			components["web"].Name, components["web"].RenamedFrom = "front", "web"
		})
	}, bothReady},
	{"remove", func(u *user, ctx context.Context) error {
		return u.editSpecs(ctx, nil, func(components map[string]*appsapi.Component) {
			delete(components, "api")
			components["front"].Bindings = []appsapi.Binding{{Component: "db"}}
		})
	}, bothReady},
	{"edge", func(u *user, ctx context.Context) error {
		return u.editSpecs(ctx, nil, func(components map[string]*appsapi.Component) {
			components["front"].Bindings, components["front"].DependsOn = nil, []string{"migrate"}
		})
	}, bothReady},
	{"job-again", func(u *user, ctx context.Context) error {
		return u.editSpecs(ctx, nil, func(components map[string]*appsapi.Component) {
			components["migrate"].Job.Args = []string{"--to=2"}
		})
	}, bothReady},
	{"conflict", (*user).createNameConflict, map[string]string{"AppService/solo": readyStatus, "AppStack/shop": nameConflictStatus}},
	{"conflict-ends", func(u *user, ctx context.Context) error {
		return u.Delete(ctx, &appsv1.Deployment{ObjectMeta: u.objectMeta("shop-cache")})
	}, bothReady},
	{"delete", (*user).deleteAll, map[string]string{"AppService/solo": absent, "AppStack/shop": absent}},
	{"create-again", (*user).installAll, bothReady},
	{"delete-again", (*user).deleteAll, map[string]string{"AppService/solo": absent, "AppStack/shop": absent}},
}

func (u *user) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: u.namespace, Name: name}
}

func (u *user) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := u.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func containerSpec(image string, configMaps ...string) appsapi.ContainerSpec {
	c := appsapi.ContainerSpec{Image: image}
	for _, name := range configMaps {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
	}
	return c
}

func (u *user) installService(ctx context.Context) error {
	app := &appsapi.AppService{ObjectMeta: u.objectMeta("solo")}
	app.Spec.ContainerSpec = containerSpec("shop/solo:1")
	app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "password"}}}}
	app.Spec.Replicas = new(int32(2))
	app.Spec.Ports = []appsapi.Port{{Name: "http", Port: 80}}
	app.Spec.Config.Files = []appsapi.ConfigFile{{Path: "/etc/solo.yaml", Content: "color: red"}}
	return u.create(ctx,
		&corev1.Secret{ObjectMeta: u.objectMeta("password"), StringData: map[string]string{"PASSWORD": "open"}},
		&corev1.ConfigMap{ObjectMeta: u.objectMeta("settings"), Data: map[string]string{"COLOR": "red"}}, app)
}

// shopStack has four components: a store, a job that prepares it, and two dependents.
func (u *user) shopStack() *appsapi.AppStack {
	port := []appsapi.Port{{Name: "http", Port: 80}}
	stack := &appsapi.AppStack{ObjectMeta: u.objectMeta("shop")}
	stack.Spec.Components = []appsapi.Component{
		{Name: "db", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("shop/db:1"), Ports: port}}},
		{Name: "migrate", DependsOn: []string{"db"}, Job: &appsapi.JobComponent{ContainerSpec: containerSpec("shop/migrate:1")}},
		{Name: "api", DependsOn: []string{"migrate"}, Bindings: []appsapi.Binding{{Component: "db"}},
			Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("shop/api:1", "settings"), Ports: port, Replicas: new(int32(2))}}},
		{Name: "web", Bindings: []appsapi.Binding{{Component: "api"}},
			Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("shop/web:1"), Ports: port, Replicas: new(int32(1))}}},
	}
	return stack
}

func (u *user) installStack(ctx context.Context) error { return u.create(ctx, u.shopStack()) }

// installAll reinstalls deleted applications; their ConfigMaps and Secrets still exist.
func (u *user) installAll(ctx context.Context) error {
	app := &appsapi.AppService{ObjectMeta: u.objectMeta("solo")}
	app.Spec.ContainerSpec = containerSpec("shop/solo:1")
	return u.create(ctx, app, u.shopStack())
}

// editSpecs changes the specs. Components are found by name; a deleted map entry removes the component.
func (u *user) editSpecs(ctx context.Context, service func(*appsapi.AppService), stack func(map[string]*appsapi.Component)) error {
	if service != nil {
		app := &appsapi.AppService{ObjectMeta: u.objectMeta("solo")}
		if err := u.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		before := app.DeepCopy()
		service(app)
		if err := u.Patch(ctx, app, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	app := &appsapi.AppStack{ObjectMeta: u.objectMeta("shop")}
	if err := u.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	before := app.DeepCopy()
	byName := map[string]*appsapi.Component{}
	for i := range app.Spec.Components {
		byName[app.Spec.Components[i].Name] = &app.Spec.Components[i]
	}
	stack(byName)
	remaining := slices.Collect(maps.Values(byName))
	var components []appsapi.Component
	for i := range app.Spec.Components {
		if slices.Contains(remaining, &app.Spec.Components[i]) {
			components = append(components, app.Spec.Components[i])
		}
	}
	for name, c := range byName { // added components
		if !slices.ContainsFunc(components, func(k appsapi.Component) bool { return k.Name == name || k.RenamedFrom == name }) {
			components = append(components, *c)
		}
	}
	app.Spec.Components = components
	return u.Patch(ctx, app, client.MergeFrom(before))
}

func (u *user) changeConfig(ctx context.Context) error {
	settings := &corev1.ConfigMap{ObjectMeta: u.objectMeta("settings"), Data: map[string]string{"COLOR": "blue"}}
	password := &corev1.Secret{ObjectMeta: u.objectMeta("password"), StringData: map[string]string{"PASSWORD": "sesame"}}
	if err := u.Update(ctx, settings); err != nil {
		return err
	}
	return u.Update(ctx, password)
}

// createNameConflict creates a foreign object with the name of a later component.
func (u *user) createNameConflict(ctx context.Context) error {
	labels := map[string]string{"app": "theirs"}
	foreign := &appsv1.Deployment{ObjectMeta: u.objectMeta("shop-cache"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "their/cache:1"}}}},
	}}
	if err := u.create(ctx, foreign); err != nil {
		return err
	}
	return u.editSpecs(ctx, nil, func(components map[string]*appsapi.Component) {
		components["cache"] = &appsapi.Component{Name: "cache", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("shop/cache:1")}}}
	})
}

func (u *user) deleteAll(ctx context.Context) error {
	for _, o := range []client.Object{&appsapi.AppService{ObjectMeta: u.objectMeta("solo")}, &appsapi.AppStack{ObjectMeta: u.objectMeta("shop")}} {
		if err := u.Delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
