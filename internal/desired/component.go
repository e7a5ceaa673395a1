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
	// ServiceName is the name of its Service, if it has ports.
	ServiceName string
	// RenamedFrom is the component that this one was.
	RenamedFrom string
	// DependsOn are the components it waits for, those it is bound to included.
	DependsOn []string
	// BoundTo are the components it connects to.
	BoundTo []string
	// ConsumedSecrets are the Secrets that its pods are replaced for, where one of them may say how to get into a database.
	ConsumedSecrets []string
	// NonBlocking is set when those that depend on it need not wait.
	NonBlocking bool
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
	// JobSpecHash is the hash of the own spec of a job that runs once.
	JobSpecHash string
	// Data is what is kept of it; nil when it has none.
	Data *Data
	// Database is what its application gets in with; nil when it is none.
	Database *Database
	// InvalidMessage is why the component can never work, whatever happens in the cluster.
	InvalidMessage string
}

// Selector finds the pods of the component, in the syntax of kubectl.
func (c Component) Selector() string { return labels.Set(podSelector(c.WorkloadID)).String() }

// renderContext is what the children of a component are made of beside its own spec.
type renderContext struct {
	Owner
	components       []appsapi.Component
	refStates        RefStates
	dataLocations    map[string]dataLocation
	orphanedReplicas map[string]int32
}

// ClusterState is what is known of the cluster beside the children themselves.
type ClusterState struct {
	RefStates RefStates
	// Retained are the claims and credentials that may be those of the application.
	Retained []RetainedObject
	// OrphanedReplicas are the components that have pods and no StatefulSet, because somebody took it
	// away, or we did, to make it anew around them: how many pods it had.
	OrphanedReplicas map[string]int32
}

// Build says what the components of an application need.
func Build(owner Owner, components []appsapi.Component, state ClusterState) []Component {
	components = ResolveBindings(owner, components, state.Retained)
	rc := renderContext{owner, components, state.RefStates, locateData(owner, components, state.Retained), state.OrphanedReplicas}
	out, hash, anyDatabase := make([]Component, 0, len(components)), inputHash(owner, components, state), hasDatabase(components)
	for _, c := range components {
		d := Component{
			Name: c.Name, ResourceName: ResourceName(owner, c), RenamedFrom: c.RenamedFrom, Suspended: c.Suspend,
			DependsOn: dependencies(c), ProgressDeadlineSeconds: defaultProgressDeadline,
		}
		for _, b := range c.Bindings {
			d.BoundTo = append(d.BoundTo, b.Component)
		}
		if anyDatabase {
			d.ConsumedSecrets = secretNames(Refs(c))
		}
		switch {
		case c.Service != nil:
			rc.buildService(c, &d)
		case c.Stateful != nil:
			rc.buildStateful(c, &d)
		case c.Job != nil:
			rc.buildJob(c, &d)
		}
		for i := range d.Children {
			d.Children[i].InputHash = hash
			d.Children[i].memoizeRender()
		}
		out = append(out, d)
	}
	return out
}

// resourceName is what the children of a component are called: those of one with data keep the name
// that they were made with.
func (rc renderContext) resourceName(c appsapi.Component) string {
	if location, ok := rc.dataLocations[c.Name]; ok {
		return location.statefulSet
	}
	return ResourceName(rc.Owner, c)
}

// componentType says what a component is.
func componentType(c appsapi.Component) appsapi.ComponentType {
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

// serverSpec is what a component serves with; a job does not.
func serverSpec(c appsapi.Component) *appsapi.ServerSpec {
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

func (rc renderContext) buildService(c appsapi.Component, d *Component) {
	name := d.ResourceName
	d.Type, d.ServiceName = appsapi.ComponentService, name
	d.Workload = ID{Kind: KindDeployment, Name: name}
	d.WorkloadID = WorkloadID(KindDeployment.Kind, name)
	d.InvalidMessage = rc.validate(c, c.Service.ServerSpec)
	if err := validateExpose(c.Service.Expose); err != nil && d.InvalidMessage == "" {
		d.InvalidMessage = err.Error()
	}
	d.Children = rc.withFiles(c, c.Service.PodSettings, deployment(rc, c, name))
	if s := c.Service.Update.ProgressDeadlineSeconds; s != 0 {
		d.ProgressDeadlineSeconds = s
	}
	if len(c.Service.Ports) > 0 {
		d.Children = append(d.Children, service(rc.Owner, c, name, d.WorkloadID))
	}
	if c.Service.Autoscaling != nil {
		d.Children = append(d.Children, autoscaler(rc.Owner, c, name))
	}
	if wantsBudget(c.Service.ServerSpec, c.Service.Autoscaling) {
		d.Children = append(d.Children, budget(rc.Owner, c, name, d.WorkloadID))
	}
	if c.Service.Expose != nil && len(c.Service.Ports) > 0 {
		d.Children = append(d.Children, exposeChild(rc.Owner, c, name))
		d.Endpoints = externalEndpoints(c.Service.Expose)
	}
	for _, p := range c.Service.Ports {
		e := clusterEndpoint(rc.Namespace, name, p)
		if !slices.ContainsFunc(d.Endpoints, func(o appsapi.Endpoint) bool { return o.Name == e.Name }) {
			d.Endpoints = append(d.Endpoints, e) // a hostname may be called like a port
		}
	}
}

// withFiles are a workload and the files that its pods find.
func (rc renderContext) withFiles(c appsapi.Component, p appsapi.PodSettings, workload Child) []Child {
	if len(p.Config.Files) == 0 {
		return []Child{workload}
	}
	return []Child{workload, configFilesMap(rc.Owner, c, rc.resourceName(c), p.Config)}
}

// validate is why no pods can be made of a component, as far as nobody but us can see it.
func (rc renderContext) validate(c appsapi.Component, server appsapi.ServerSpec) string {
	main := corev1.Container{
		Env: server.Env, EnvFrom: server.EnvFrom, Resources: server.Resources, Ports: containerPorts(server.Ports),
		ReadinessProbe: server.Probes.Readiness, LivenessProbe: server.Probes.Liveness, StartupProbe: server.Probes.Startup,
	}
	if err := firstError(validateMountPaths(server.PodSettings), validatePods(server.PodSettings), validateKeys("service.annotations", server.Service.Annotations)); err != nil {
		return err.Error()
	}
	if server.PodTemplateOverlay == nil {
		if err := firstError(validateContainer(&main), validateResourceClaims(server.Resources)); err != nil {
			return err.Error()
		}
		return ""
	}
	template, err := podTemplate(rc, c, "", containerName, server, nil)
	if err != nil {
		return err.Error()
	}
	if p := template.Spec.RestartPolicy; c.Job == nil && p != nil && *p != corev1.RestartPolicyAlways {
		return fmt.Sprintf("podTemplateOverlay sets spec.restartPolicy to %s, and the pods of a service are always restarted; remove it, or make it a job", *p)
	}
	return ""
}

// clusterEndpoint names the scheme that the port's name or number tells, and otherwise http for
// what has no name at all: a lone port is nearly always a web server's.
func clusterEndpoint(namespace, service string, p appsapi.Port) appsapi.Endpoint {
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
