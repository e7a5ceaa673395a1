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

// Component is a component with all its children.
type Component struct {
	Name string
	Type appsapi.ComponentType
	// SpecPath is the path of the component in the spec of the application, for messages; empty if unknown.
	SpecPath string
	// ResourceName is the name of the children. Names of Jobs have a hash appended.
	ResourceName string
	// ServiceName is the name of the Service, if the component has ports.
	ServiceName string
	// RenamedFrom is the previous name of this component.
	RenamedFrom string
	// DependsOn are the components that this component waits for, including bound components.
	DependsOn []string
	// BoundTo are the components that this component has bindings to.
	BoundTo []string
	// ConsumedSecrets are the Secrets whose changes cause the pods to be replaced, including binding Secrets. Empty
	// if the application has no database.
	ConsumedSecrets []string
	// NonBlocking is set if dependents do not wait for this component.
	NonBlocking bool
	// Suspended components are observed but not changed.
	Suspended bool
	// Workload is the child that creates the pods.
	Workload ID
	// WorkloadID is the value of the workload label of the pods, see Keys.Workload.
	WorkloadID string
	// Children are the objects of the component. Messages list them in this order; they can be applied in any
	// order.
	Children []Child
	// Endpoints are the addresses of the component, external addresses first.
	Endpoints []appsapi.Endpoint
	// DefaultReadinessProbe is set if the readiness probe follows from the ports instead of the spec.
	DefaultReadinessProbe bool
	// ProgressDeadlineSeconds is the time without progress after which the component is reported as stalled.
	ProgressDeadlineSeconds int32
	// JobSpecHash is the hash of the spec of a job without a schedule.
	JobSpecHash string
	// Data are the volumes and credentials; nil for components without data.
	Data *StatefulData
	// Database is set for a database component.
	Database *Database
	// InvalidMessage describes why the spec of the component is invalid.
	InvalidMessage string
}

// Selector returns the label selector of the pods in the syntax of kubectl.
func (c Component) Selector(keys *appsapi.Keys) string {
	return labels.Set(podSelector(keys, c.WorkloadID)).String()
}

// renderContext contains the inputs for the children of a component in addition to its spec.
type renderContext struct {
	Owner
	components       []ExpandedComponent
	refStates        RefStates
	dataLocations    map[string]dataLocation
	orphanedReplicas map[string]int32
}

// ClusterState is the state of the cluster that children depend on, except for the children themselves.
type ClusterState struct {
	RefStates RefStates
	// Retained are the claims and credentials that can belong to the application.
	Retained []RetainedObject
	// OrphanedReplicas is the number of pods of components whose StatefulSet does not exist, because another
	// client deleted it or the operator is recreating it.
	OrphanedReplicas map[string]int32
}

// Build returns the components of an application with their children.
func Build(owner Owner, components []ExpandedComponent, state ClusterState) []Component {
	components = ResolveBindings(owner, components, state.Retained)
	rc := renderContext{owner, components, state.RefStates, locateData(owner, components, state.Retained), state.OrphanedReplicas}
	out, hash, anyDatabase := make([]Component, 0, len(components)), inputHash(owner, components, state), hasDatabase(components)
	for _, c := range components {
		d := Component{
			Name: c.Name, SpecPath: c.SpecPath, ResourceName: DeclaredName(owner, c), RenamedFrom: c.RenamedFrom, Suspended: c.Operations.Suspend,
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

// childrenName returns the name of the children of a component. A component with data keeps the name that its
// data was created with.
func (rc renderContext) childrenName(c ExpandedComponent) string {
	if location, ok := rc.dataLocations[c.Name]; ok {
		return location.statefulSet
	}
	return DeclaredName(rc.Owner, c)
}

// TypeOf returns the type of a component.
func TypeOf(c appsapi.Component) appsapi.ComponentType {
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

// longRunningSpec returns the settings that services and stateful components have in common; nil for a job.
func longRunningSpec(c ExpandedComponent) *appsapi.ServerSpec {
	switch {
	case c.Service != nil:
		return &c.Service.ServerSpec
	case c.Stateful != nil:
		return &c.Stateful.ServerSpec
	}
	return nil
}

// dependencies returns the components that a component waits for, sorted and without duplicates.
func dependencies(c ExpandedComponent) []string {
	out := slices.Clone(c.DependsOn)
	for _, b := range c.Bindings {
		out = append(out, b.Component)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// setInvalid adds the errors of the spec to the component.
func (c *Component) setInvalid(all ...error) {
	if err := joinErrors(all...); err != nil {
		c.InvalidMessage = err.Error()
	}
}

func (rc renderContext) buildService(c ExpandedComponent, d *Component) {
	name := d.ResourceName
	d.Type, d.ServiceName = appsapi.ComponentService, name
	d.Workload = ID{Kind: KindDeployment, Name: name}
	d.WorkloadID = WorkloadID(KindDeployment.Kind, name)
	d.DefaultReadinessProbe = hasDefaultReadinessProbe(c.Service.ServerSpec)
	d.setInvalid(rc.validate(c, c.Service.ServerSpec), validateExpose(c.Service.Expose))
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
		d.Children = append(d.Children, routeOrIngress(rc.Owner, c, name))
		d.Endpoints = externalEndpoints(c.Service.Expose)
	}
	for _, p := range c.Service.Ports {
		e := clusterEndpoint(rc.Namespace, name, p)
		if !slices.ContainsFunc(d.Endpoints, func(o appsapi.Endpoint) bool { return o.Name == e.Name }) {
			d.Endpoints = append(d.Endpoints, e) // names must be unique, and a port name can equal a hostname
		}
	}
}

// withFiles returns a workload and the ConfigMap with its files, if any.
func (rc renderContext) withFiles(c ExpandedComponent, p appsapi.PodSettings, workload Child) []Child {
	if len(p.Config.Files) == 0 {
		return []Child{workload}
	}
	return []Child{workload, configFilesMap(rc.Owner, c, rc.childrenName(c), p.Config)}
}

// validate checks the pod settings that the API server does not check.
func (rc renderContext) validate(c ExpandedComponent, server appsapi.ServerSpec) error {
	main := corev1.Container{
		Env: server.Env, EnvFrom: server.EnvFrom, Resources: server.Resources, Ports: containerPorts(server.Ports),
		ReadinessProbe: server.Probes.Readiness, LivenessProbe: server.Probes.Liveness, StartupProbe: server.Probes.Startup,
	}
	err := joinErrors(validateMountPaths(server.PodSettings), validatePods(server.PodSettings), validateKeys("service.annotations", server.Service.Annotations))
	if server.PodTemplateOverlay == nil {
		return joinErrors(err, validateContainer(&main), validateResourceClaims(server.Resources))
	}
	if err != nil {
		return err // the overlay is validated with the whole pod template
	}
	template, err := podTemplate(rc, c, podInputs{container: containerName}, server)
	if err != nil {
		return err
	}
	if p := template.Spec.RestartPolicy; c.Job == nil && p != nil && *p != corev1.RestartPolicyAlways {
		return fmt.Errorf("podTemplateOverlay sets spec.restartPolicy to %s, but the pods of a service require restartPolicy Always; "+
			"remove it, or use a job component", *p)
	}
	return nil
}

// clusterEndpoint returns the address of a port inside the cluster. The scheme follows from the name or number
// of the port. An unnamed port with another number gets http, because a single unnamed port
// usually serves HTTP.
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
