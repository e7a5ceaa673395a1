package planaccuracy

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// editStack edits, adds, removes or reorders components of a stack.
func (s *editedApp) editStack(r *rand.Rand) string {
	spec := &s.stack.Spec
	switch r.IntN(14) {
	case 0:
		n := s.nextNumber()
		c := appsapi.Component{Name: fmt.Sprintf("new%d", n)}
		switch r.IntN(4) {
		case 0:
			c.Service = ptr(randomService(r))
		case 1:
			c.Job = randomJob(r)
		case 2:
			c.Database = randomDatabase(r)
		default:
			c.Stateful = randomStateful(r)
		}
		if r.IntN(2) == 0 {
			c.DependsOn = []string{spec.Components[r.IntN(len(spec.Components))].Name}
		}
		spec.Components = append(spec.Components, c)
		return "add component " + c.Name
	case 1:
		if len(s.removed) > 0 && r.IntN(2) == 0 {
			again := s.removed[0]
			s.removed = s.removed[1:]
			spec.Components = append(spec.Components, again)
			return "add component " + again.Name + " again"
		}
		if len(spec.Components) > 2 {
			i := r.IntN(len(spec.Components))
			if hasData(spec.Components[i]) && r.IntN(2) == 0 {
				spec.DeletionPolicy = appsapi.DeletionDelete
			}
			return s.removeComponent(i) + fmt.Sprintf(" (%s)", spec.DeletionPolicy)
		}
	case 2:
		return s.renameComponent(r.IntN(len(spec.Components)))
	case 3:
		return s.editEdges(r)
	case 4:
		i := r.IntN(len(spec.Components))
		return s.editOperations(r, spec.Components[i])
	case 5:
		if r.IntN(2) == 0 {
			spec.Suspend = !spec.Suspend
			return fmt.Sprintf("suspend all: %t", spec.Suspend)
		}
		if spec.DeletionPolicy == appsapi.DeletionDelete {
			spec.DeletionPolicy = appsapi.DeletionRetain
		} else {
			spec.DeletionPolicy = appsapi.DeletionDelete
		}
		return fmt.Sprint("deletionPolicy ", spec.DeletionPolicy)
	}
	if r.IntN(4) == 0 {
		return s.invalidEdit(r)
	}
	c := &spec.Components[r.IntN(len(spec.Components))]
	return c.Name + ": " + s.editComponent(r, c)
}

// invalidEdit makes an edit that the API server or the operator rejects, or that is only valid because of the previous
// state.
func (s *editedApp) invalidEdit(r *rand.Rand) string {
	spec := &s.stack.Spec
	has := func(name string) bool {
		return slices.ContainsFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == name })
	}
	add := func(name string, c *appsapi.ServiceComponent) string {
		if has(name) {
			return s.removeComponent(slices.IndexFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == name }))
		}
		spec.Components = append(spec.Components, appsapi.Component{Name: name, Service: c})
		return "add component " + name
	}
	c := &spec.Components[r.IntN(len(spec.Components))]
	switch r.IntN(7) {
	case 0:
		return add("taken", ptr(randomService(r)))
	case 1:
		return add("given", ptr(randomService(r)))
	case 2:
		if c.Stateful != nil {
			c.Stateful.Storage[0].Size = resource.MustParse("512Mi")
			return c.Name + ": storage 512Mi"
		}
	case 3:
		if c.Service != nil {
			c.Service.Replicas, c.Service.Autoscaling = new(int32(2)), &appsapi.AutoscalingSettings{MaxReplicas: 3, TargetCPUUtilization: 50}
			return c.Name + ": replicas and autoscaling"
		}
	case 4:
		if c.Service != nil && len(c.Service.Ports) > 0 {
			c.Service.Expose = &appsapi.ExposeSettings{GatewayRef: &appsapi.GatewayReference{Name: "web"}}
			return c.Name + ": exposed by a Gateway that does not exist"
		}
	case 5:
		first, last := &spec.Components[0], &spec.Components[len(spec.Components)-1]
		first.DependsOn = append(first.DependsOn, last.Name)
		return "possible dependency cycle"
	}
	fixed := "fixed"
	if i := slices.IndexFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == "fixed" }); i >= 0 {
		if r.IntN(2) == 0 {
			return s.removeComponent(i)
		}
		spec.Components[i].Stateful.Storage[0].Size.Add(resource.MustParse("1Gi"))
		return "larger storage of a class that does not allow expansion"
	}
	component := appsapi.Component{Name: "fixed", Stateful: randomStateful(r)}
	component.Stateful.Storage[0].ClassName = &fixed
	spec.Components = append(spec.Components, component)
	return "add component fixed"
}

func (s *editedApp) editComponent(r *rand.Rand, c *appsapi.Component) string {
	switch {
	case c.Service != nil:
		if r.IntN(12) == 0 {
			c.ResourceName = fmt.Sprintf("other%d", s.nextNumber())
			return "resourceName " + c.ResourceName
		}
		return s.editServiceComponent(r, c.Service)
	case c.Stateful != nil:
		switch r.IntN(5) {
		case 0, 1:
			size := &c.Stateful.Storage[0].Size
			size.Add(resource.MustParse("1Gi"))
			*size = resource.MustParse(size.String())
			return "storage " + size.String()
		case 2:
			c.Stateful.Replicas = new(int32(r.IntN(4)))
			return fmt.Sprintf("replicas: %d", *c.Stateful.Replicas)
		}
		return s.editServer(r, &c.Stateful.ServerSpec)
	case c.Database != nil:
		return s.editDatabase(r, c.Database)
	}
	switch r.IntN(5) {
	case 0:
		if c.Job.Schedule == "" {
			c.Job.Schedule = "0 3 1 1 *"
			return "a schedule"
		}
		c.Job.Schedule = ""
		return "no schedule"
	case 1:
		c.Job.BackoffLimit = new(int32(r.IntN(5)))
		return "backoffLimit"
	}
	return s.editPodSettings(r, &c.Job.ContainerSpec, &c.Job.PodSettings)
}

// editOperations requests an operation of a component.
func (s *editedApp) editOperations(r *rand.Rand, c appsapi.Component) string {
	what := ""
	s.stack.Spec.EditOperations(c.Name, func(o *appsapi.ComponentOperations) {
		switch r.IntN(3) {
		case 0:
			o.Suspend = !o.Suspend
			what = fmt.Sprintf("suspend %s: %t", c.Name, o.Suspend)
		case 1:
			o.RestartRequestedAt = fmt.Sprint(s.nextNumber())
			what = "restart " + c.Name
		default:
			o.Replicas = new(int32(1 + r.IntN(3)))
			what = fmt.Sprintf("scale %s: %d", c.Name, *o.Replicas)
		}
	})
	return what
}

// editDatabase edits a database. The versions include a downgrade below the version of the data files.
func (s *editedApp) editDatabase(r *rand.Rand, d *appsapi.DatabaseComponent) string {
	n := s.nextNumber()
	switch r.IntN(6) {
	case 0, 1:
		d.Storage.Size.Add(resource.MustParse("1Gi"))
		d.Storage.Size = resource.MustParse(d.Storage.Size.String())
		return "storage " + d.Storage.Size.String()
	case 2:
		d.Version = []string{"10.11", "11.4", "11.8"}[r.IntN(3)]
		return "version " + d.Version
	case 3:
		d.Config = fmt.Sprintf("[server]\nmax_connections = %d\n", 100+n)
		return "config"
	case 4:
		d.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 300+n))}
		return "resources"
	}
	d.Database = fmt.Sprint("schema", n) // the API server rejects a change of the name
	return "schema " + d.Database
}

func hasData(c appsapi.Component) bool { return c.Stateful != nil || c.Database != nil }

// removeComponent removes a component and all references to it.
func (s *editedApp) removeComponent(i int) string {
	spec := &s.stack.Spec
	name := spec.Components[i].Name
	if c := *spec.Components[i].DeepCopy(); hasData(c) {
		c.DependsOn, c.Bindings, c.RenamedFrom = nil, nil, ""
		s.removed = append(s.removed, c)
	}
	spec.Components = slices.Delete(spec.Components, i, i+1)
	s.replaceDependency(name, "")
	return "component " + name + " less"
}

// replaceDependency replaces or removes references to a component.
func (s *editedApp) replaceDependency(from, to string) {
	for i := range s.stack.Spec.Components {
		c := &s.stack.Spec.Components[i]
		if c.RenamedFrom == to && to != "" {
			c.RenamedFrom = ""
		}
		for j := range c.DependsOn {
			if c.DependsOn[j] == from {
				c.DependsOn[j] = to
			}
		}
		for j := range c.Bindings {
			if c.Bindings[j].Component == from {
				c.Bindings[j].Component = to
			}
		}
		c.DependsOn = slices.DeleteFunc(c.DependsOn, func(d string) bool { return d == "" })
		c.Bindings = slices.DeleteFunc(c.Bindings, func(b appsapi.Binding) bool { return b.Component == "" })
	}
}

func (s *editedApp) renameComponent(i int) string {
	c := &s.stack.Spec.Components[i]
	before := c.Name
	c.Name = fmt.Sprintf("ren%d", s.nextNumber())
	s.replaceDependency(before, c.Name)
	s.stack.Spec.Components[i].RenamedFrom = before
	return "component " + before + " renamed to " + c.Name
}

// editEdges adds a dependency on an earlier component, or removes all.
func (s *editedApp) editEdges(r *rand.Rand) string {
	spec := &s.stack.Spec
	i := r.IntN(len(spec.Components))
	c := &spec.Components[i]
	if len(c.DependsOn) > 0 && r.IntN(2) == 0 {
		c.DependsOn = nil
		return c.Name + " depends on nothing"
	}
	if i == 0 {
		return s.editComponent(r, c)
	}
	other := spec.Components[r.IntN(i)].Name
	if !slices.Contains(c.DependsOn, other) {
		c.DependsOn = append(c.DependsOn, other)
	}
	return c.Name + " depends on " + other
}
