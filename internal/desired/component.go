package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Component is a component with everything it needs in the cluster.
type Component struct {
	Name string
	Type appsapi.ComponentType
	// ResourceName is what its children are called, apart from what Jobs append.
	ResourceName string
	// Address is the name of its Service, if it has ports.
	Address string
	// RenamedFrom is the component that this one was.
	RenamedFrom string
	// DependsOn are the components it waits for, those it is bound to included.
	DependsOn []string
	// BoundTo are the components it connects to.
	BoundTo []string
	// Reads are the Secrets that its pods are replaced for, where one of them may say how to get into a database.
	Reads []string
	// GatesNobody is set when those that depend on it need not wait.
	GatesNobody bool
	// Suspended components are looked at, not written.
	Suspended bool
	// Workload is the child that runs the pods.
	Workload ID
	// WorkloadID finds its pods by label.
	WorkloadID string
	// Children in the order in which they are listed to people; they do not depend on
	// each other.
	Children []Child
	// Endpoints are where the component can be reached, from outside of the cluster first.
	Endpoints []appsapi.Endpoint
	// ProgressDeadlineSeconds is after how long without progress it counts as stalled.
	ProgressDeadlineSeconds int32
	// JobSpec is the hash of the own spec of a job that runs once.
	JobSpec string
	// Data is what is kept of it; nil when it has none.
	Data *Data
	// Database is what its application gets in with; nil when it is none.
	Database *Database
	// Invalid is why the component can never work, whatever happens in the cluster.
	Invalid string
}

// Selector finds the pods of the component, in the syntax of kubectl.
func (c Component) Selector() string { return labels.Set(selector(c.WorkloadID)).String() }

// application is what the children of a component are made of beside its own spec.
type application struct {
	Owner
	components []appsapi.Component
	contents   Contents
	homes      map[string]home
	running    map[string]int32
}

// Known is what is known of the cluster beside the children themselves.
type Known struct {
	Contents Contents
	// Kept are the claims and credentials that may be those of the application.
	Kept []Kept
	// Running are the components that have pods and no StatefulSet, because somebody took it
	// away, or we did, to make it anew around them: how many pods it had.
	Running map[string]int32
}

// For says what the components of an application need.
func For(owner Owner, components []appsapi.Component, known Known) []Component {
	components = Bound(owner, components, known.Kept)
	a := application{owner, components, known.Contents, homes(owner, components, known.Kept), known.Running}
	out, basis, databases := make([]Component, 0, len(components)), basisOf(owner, components, known), haveDatabase(components)
	for _, c := range components {
		d := Component{
			Name: c.Name, ResourceName: Name(owner, c), RenamedFrom: c.RenamedFrom, Suspended: c.Suspend,
			DependsOn: dependencies(c), ProgressDeadlineSeconds: defaultProgressDeadline,
		}
		for _, b := range c.Bindings {
			d.BoundTo = append(d.BoundTo, b.Component)
		}
		if databases {
			d.Reads = secretsOf(Refs(c))
		}
		switch {
		case c.Service != nil:
			a.service(c, &d)
		case c.Stateful != nil:
			a.stateful(c, &d)
		case c.Job != nil:
			a.job(c, &d)
		}
		for i := range d.Children {
			d.Children[i].Basis = basis
			d.Children[i].keepPeeked()
		}
		out = append(out, d)
	}
	return out
}

// name is what the children of a component are called: those of one with data keep the name
// that they were made with.
func (a application) name(c appsapi.Component) string {
	if h, ok := a.homes[c.Name]; ok {
		return h.set
	}
	return Name(a.Owner, c)
}

// typeOf says what a component is.
func typeOf(c appsapi.Component) appsapi.ComponentType {
	switch {
	case c.Database != nil:
		return appsapi.ComponentDatabase
	case c.Stateful != nil:
		return appsapi.ComponentStateful
	case c.Job != nil:
		return appsapi.ComponentJob
	}
	return appsapi.ComponentService
}

// serverOf is what a component serves with; a job does not.
func serverOf(c appsapi.Component) *appsapi.ServerSpec {
	switch {
	case c.Service != nil:
		return &c.Service.ServerSpec
	case c.Stateful != nil:
		return &c.Stateful.ServerSpec
	}
	return nil
}

// dependencies are what a component waits for, each once, in order.
func dependencies(c appsapi.Component) []string {
	out := slices.Clone(c.DependsOn)
	for _, b := range c.Bindings {
		out = append(out, b.Component)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a application) service(c appsapi.Component, d *Component) {
	name := d.ResourceName
	d.Type, d.Address = appsapi.ComponentService, name
	d.Workload = ID{Kind: KindDeployment, Name: name}
	d.WorkloadID = WorkloadID(KindDeployment.Kind, name)
	d.Invalid = a.invalid(c, c.Service.ServerSpec)
	if err := soundExpose(c.Service.Expose); err != nil && d.Invalid == "" {
		d.Invalid = err.Error()
	}
	d.Children = a.withFiles(c, c.Service.PodSettings, deployment(a, c, name))
	if s := c.Service.Update.ProgressDeadlineSeconds; s != 0 {
		d.ProgressDeadlineSeconds = s
	}
	if len(c.Service.Ports) > 0 {
		d.Children = append(d.Children, service(a.Owner, c, name, d.WorkloadID))
	}
	if c.Service.Autoscaling != nil {
		d.Children = append(d.Children, autoscaler(a.Owner, c, name))
	}
	if wantsBudget(c.Service.ServerSpec, c.Service.Autoscaling) {
		d.Children = append(d.Children, budget(a.Owner, c, name, d.WorkloadID))
	}
	if c.Service.Expose != nil && len(c.Service.Ports) > 0 {
		d.Children = append(d.Children, exposed(a.Owner, c, name))
		d.Endpoints = outside(c.Service.Expose)
	}
	for _, p := range c.Service.Ports {
		e := endpoint(a.Namespace, name, p)
		if !slices.ContainsFunc(d.Endpoints, func(o appsapi.Endpoint) bool { return o.Name == e.Name }) {
			d.Endpoints = append(d.Endpoints, e) // a hostname may be called like a port
		}
	}
}

// withFiles are a workload and the files that its pods find.
func (a application) withFiles(c appsapi.Component, p appsapi.PodSettings, workload Child) []Child {
	if len(p.Config.Files) == 0 {
		return []Child{workload}
	}
	return []Child{workload, files(a.Owner, c, a.name(c), p.Config)}
}

// invalid is why no pods can be made of a component, as far as nobody but us can see it.
func (a application) invalid(c appsapi.Component, pods appsapi.ServerSpec) string {
	main := corev1.Container{
		Env: pods.Env, EnvFrom: pods.EnvFrom, Resources: pods.Resources, Ports: containerPorts(pods.Ports),
		ReadinessProbe: pods.Probes.Readiness, LivenessProbe: pods.Probes.Liveness, StartupProbe: pods.Probes.Startup,
	}
	if err := firstOf(collision(pods.PodSettings), soundPods(pods.PodSettings), soundKeys("service.annotations", pods.Service.Annotations)); err != nil {
		return err.Error()
	}
	if pods.PodTemplateOverlay == nil {
		if err := firstOf(soundContainer(&main), soundClaims(pods.Resources)); err != nil {
			return err.Error()
		}
		return ""
	}
	template, err := podTemplate(a, c, "", containerName, pods, nil)
	if err != nil {
		return err.Error()
	}
	if p := template.Spec.RestartPolicy; c.Job == nil && p != nil && *p != corev1.RestartPolicyAlways {
		return fmt.Sprintf("podTemplateOverlay sets spec.restartPolicy to %s, and the pods of a service are always restarted; remove it, or make it a job", *p)
	}
	return ""
}

// endpoint names the scheme that the port's name or number tells, and otherwise http for
// what has no name at all: a lone port is nearly always a web server's.
func endpoint(namespace, service string, p appsapi.Port) appsapi.Endpoint {
	name, scheme := p.Name, strings.ToLower(string(protocol(p)))
	switch {
	case protocol(p) != corev1.ProtocolTCP:
	case strings.HasPrefix(name, "https"), name == "" && p.Port == 443:
		scheme = "https"
	case strings.HasPrefix(name, "http"), name == "", name == "web":
		scheme = "http"
	}
	if name == "" {
		name = strconv.Itoa(int(p.Port))
	}
	return appsapi.Endpoint{Name: name, URL: fmt.Sprintf("%s://%s.%s.svc:%d", scheme, service, namespace, p.Port)}
}
