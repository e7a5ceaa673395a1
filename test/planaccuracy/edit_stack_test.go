package planaccuracy

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// editStack edits the components of a stack, or which there are.
func (s *editedApp) editStack(r *rand.Rand) string {
	spec := &s.stack.Spec
	switch r.IntN(14) {
	case 0:
		n := s.nextNumber()
		c := appsapi.Component{Name: fmt.Sprintf("new%d", n)}
		switch r.IntN(3) {
		case 0:
			c.Service = ptr(randomService(r))
		case 1:
			c.Job = randomJob(r)
		default:
			c.Stateful = randomStateful(r)
		}
		if r.IntN(2) == 0 {
			c.DependsOn = []string{spec.Components[r.IntN(len(spec.Components))].Name}
		}
		spec.Components = append(spec.Components, c)
		return "component " + c.Name + " more"
	case 1:
		if len(s.removed) > 0 && r.IntN(2) == 0 {
			again := s.removed[0]
			s.removed = s.removed[1:]
			spec.Components = append(spec.Components, again)
			return "component " + again.Name + " again"
		}
		if len(spec.Components) > 2 {
			i := r.IntN(len(spec.Components))
			if spec.Components[i].Stateful != nil && r.IntN(2) == 0 {
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
		spec.Components[i].Suspend = !spec.Components[i].Suspend
		return fmt.Sprintf("suspend %s: %t", spec.Components[i].Name, spec.Components[i].Suspend)
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

// invalidEdit makes what is refused, by the API server or by the operator, and what only
// works because of what was there before.
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
		return "component " + name + " more"
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
			return c.Name + ": exposed by a Gateway that nobody knows"
		}
	case 5:
		first, last := &spec.Components[0], &spec.Components[len(spec.Components)-1]
		first.DependsOn = append(first.DependsOn, last.Name)
		return "perhaps a circle"
	}
	fixed := "fixed"
	if i := slices.IndexFunc(spec.Components, func(c appsapi.Component) bool { return c.Name == "fixed" }); i >= 0 {
		if r.IntN(2) == 0 {
			return s.removeComponent(i)
		}
		spec.Components[i].Stateful.Storage[0].Size.Add(resource.MustParse("1Gi"))
		return "more of a storage that cannot grow"
	}
	component := appsapi.Component{Name: "fixed", Stateful: randomStateful(r)}
	component.Stateful.Storage[0].ClassName = &fixed
	spec.Components = append(spec.Components, component)
	return "component fixed more"
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

// removeComponent takes a component and the edges to it away.
func (s *editedApp) removeComponent(i int) string {
	spec := &s.stack.Spec
	name := spec.Components[i].Name
	if c := *spec.Components[i].DeepCopy(); c.Stateful != nil {
		c.DependsOn, c.Bindings, c.RenamedFrom = nil, nil, ""
		s.removed = append(s.removed, c)
	}
	spec.Components = slices.Delete(spec.Components, i, i+1)
	s.replaceDependency(name, "")
	return "component " + name + " less"
}

// replaceDependency makes those who need a component need another one, or none.
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

// editEdges adds an edge to an earlier component, or takes all away.
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
