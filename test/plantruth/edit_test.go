package plantruth

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// edited is a copy with one to three edits, in words.
func (s *subject) edited(r *rand.Rand) (*subject, []string) {
	out := s.copy()
	var what []string
	switch { // nothing happens while hands are off
	case out.service != nil && out.service.Spec.Suspend && r.IntN(3) > 0:
		out.service.Spec.Suspend = false
		what = append(what, "suspend: false")
	case out.stack != nil && out.stack.Spec.Suspend && r.IntN(3) > 0:
		out.stack.Spec.Suspend = false
		what = append(what, "suspend all: false")
	}
	for range 1 + r.IntN(3) {
		switch {
		case out.service != nil:
			what = append(what, out.editService(r))
		case out.stack != nil:
			what = append(what, out.editStack(r))
		default:
			what = append(what, out.editCloud(r))
		}
	}
	return out, what
}

func (s *subject) number() int { s.next++; return s.next }

func (s *subject) editService(r *rand.Rand) string {
	if r.IntN(12) == 0 {
		s.service.Spec.Suspend = !s.service.Spec.Suspend
		return fmt.Sprintf("suspend: %t", s.service.Spec.Suspend)
	}
	return s.editScalable(r, &s.service.Spec.ServiceComponent)
}

// editScalable edits what only services have, or what all servers have.
func (s *subject) editScalable(r *rand.Rand, c *appsapi.ServiceComponent) string {
	switch r.IntN(10) {
	case 0:
		if c.Autoscaling != nil {
			c.Autoscaling = nil
			if r.IntN(2) == 0 {
				c.Replicas = new(int32(1 + r.IntN(3)))
			}
			return "autoscaling off"
		}
		c.Replicas = nil
		c.Autoscaling = &appsapi.AutoscalingSettings{MinReplicas: int32(1 + r.IntN(3)), MaxReplicas: 5, TargetCPUUtilization: int32(50 + r.IntN(40))}
		return "autoscaling on"
	case 1:
		if c.Expose != nil {
			c.Expose = nil
			return "not exposed"
		}
		if len(c.Ports) > 0 {
			c.Expose = &appsapi.ExposeSettings{Hostnames: []string{fmt.Sprintf("h%d.example.com", s.number())}, IngressClassName: "nginx"}
			return "exposed"
		}
	case 2:
		if c.Autoscaling == nil {
			if c.Replicas != nil && r.IntN(3) == 0 {
				c.Replicas = nil
				return "replicas unset"
			}
			c.Replicas = new(int32(r.IntN(4)))
			return fmt.Sprintf("replicas: %d", *c.Replicas)
		}
	case 3:
		if len(c.Ports) > 1 {
			c.Ports = c.Ports[:1]
			return "a port less"
		}
		if c.Expose == nil && len(c.Ports) == 1 && r.IntN(3) == 0 {
			n := s.number()
			c.Ports[0].TargetPort = int32(8000 + n)
			return "another targetPort"
		}
		n := s.number()
		c.Ports = append(c.Ports, appsapi.Port{Name: fmt.Sprintf("p%d", n), Port: int32(9000 + n)})
		return "a port more"
	case 4:
		if c.Update.MaxSurge == nil {
			c.Update.MaxSurge = ptr(intstr.FromString("50%"))
			return "maxSurge"
		}
		c.Update = appsapi.UpdateSettings{}
		return "no update settings"
	}
	return s.editServer(r, &c.ServerSpec)
}

// editServer edits what services with and without data have.
func (s *subject) editServer(r *rand.Rand, c *appsapi.ServerSpec) string {
	switch r.IntN(9) {
	case 0:
		if c.Disruption.Budget == appsapi.DisruptionNone {
			c.Disruption.Budget = ""
			return "with a budget"
		}
		if r.IntN(2) == 0 {
			c.Disruption.MaxUnavailable = ptr(intstr.FromInt32(int32(1 + r.IntN(3))))
			return "another budget"
		}
		c.Disruption.Budget = appsapi.DisruptionNone
		return "no budget"
	case 1:
		if c.Service.SessionAffinity == "" {
			c.Service.SessionAffinity = corev1.ServiceAffinityClientIP
			return "session affinity"
		}
		c.Service.SessionAffinity = ""
		return "no session affinity"
	case 2:
		if c.Service.Annotations == nil {
			c.Service.Annotations = map[string]appsapi.AnnotationValue{"example.com/a": "b"}
			return "an annotation of the Service"
		}
		c.Service.Annotations = nil
		return "no annotation of the Service"
	case 3:
		c.Update.RestartedAt = fmt.Sprintf("2026-01-01T00:00:%02dZ", s.number()%60)
		return "restartedAt"
	case 4:
		if c.Probes.Liveness == nil && len(c.Ports) > 0 {
			c.Probes.Liveness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/live", Port: intstr.FromInt32(8080)}}}
			return "a liveness probe"
		}
		c.Probes.Liveness = nil
		return "no liveness probe"
	case 5:
		c.PreStopSleepSeconds = new(int32(r.IntN(10)))
		return "preStopSleepSeconds"
	}
	return s.editPods(r, &c.ContainerSpec, &c.PodSettings)
}

// editPods edits what everything has.
func (s *subject) editPods(r *rand.Rand, c *appsapi.ContainerSpec, p *appsapi.PodSettings) string {
	n := s.number()
	switch r.IntN(11) {
	case 0, 1, 2:
		c.Image = fmt.Sprintf("app:%d", n)
		return "image " + c.Image
	case 3:
		if i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "MODE" }); i >= 0 {
			c.Env[i] = corev1.EnvVar{Name: "MODE", Value: fmt.Sprint("v", n)}
			return "a variable changed"
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: "MODE", Value: "x"})
		return "a variable more"
	case 4:
		if len(c.Env) > 0 {
			c.Env = c.Env[:len(c.Env)-1]
			return "a variable less"
		}
		c.Env = []corev1.EnvVar{{Name: "SETTING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "mode"}}}}
		return "a variable from a ConfigMap"
	case 5:
		if i := slices.IndexFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil }); i >= 0 {
			c.EnvFrom = slices.Delete(c.EnvFrom, i, i+1)
			return "no variables from a Secret"
		}
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}}})
		return "variables from a Secret"
	case 6:
		if len(p.Config.Files) > 0 && r.IntN(3) == 0 {
			p.Config.Files = nil
			return "no files"
		}
		if len(p.Config.Files) > 0 {
			p.Config.Files[0].Content = fmt.Sprintf("n: %d\n", n)
			return "a file changed"
		}
		p.Config.Files = append(p.Config.Files, appsapi.ConfigFile{Path: fmt.Sprintf("/etc/app/f%d", n), Content: "x"})
		return "a file more"
	case 7:
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprintf("%dm", 10+n))}
		return "requests"
	case 8:
		if p.PodAnnotations == nil {
			p.PodAnnotations = map[string]appsapi.AnnotationValue{"example.com/p": appsapi.AnnotationValue(fmt.Sprint(n))}
			return "an annotation of pods"
		}
		p.PodAnnotations = nil
		return "no annotation of pods"
	case 9:
		if len(p.Volumes) > 0 {
			p.Volumes = nil
			return "no volumes"
		}
		p.Volumes = []appsapi.Volume{{Name: "cache", MountPath: "/cache", EmptyDir: &appsapi.EmptyDirVolume{}},
			{Name: "extra", MountPath: "/extra", ConfigMap: &appsapi.ObjectVolume{Name: "settings"}}}
		return "volumes"
	}
	c.Args = []string{fmt.Sprint("--n=", n)}
	return "args"
}

func (s *subject) editStack(r *rand.Rand) string {
	spec := &s.stack.Spec
	switch r.IntN(14) {
	case 0:
		n := s.number()
		c := appsapi.Component{Name: fmt.Sprintf("new%d", n)}
		switch r.IntN(3) {
		case 0:
			c.Service = ptr(service(r))
		case 1:
			c.Job = job(r)
		default:
			c.Stateful = stateful(r)
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
		return s.editWrongly(r)
	}
	c := &spec.Components[r.IntN(len(spec.Components))]
	return c.Name + ": " + s.editComponent(r, c)
}

// editWrongly makes what is refused, by the API server or by the operator, and what only
// works because of what was there before.
func (s *subject) editWrongly(r *rand.Rand) string {
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
		return add("taken", ptr(service(r)))
	case 1:
		return add("given", ptr(service(r)))
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
	component := appsapi.Component{Name: "fixed", Stateful: stateful(r)}
	component.Stateful.Storage[0].ClassName = &fixed
	spec.Components = append(spec.Components, component)
	return "component fixed more"
}

func (s *subject) editComponent(r *rand.Rand, c *appsapi.Component) string {
	switch {
	case c.Service != nil:
		if r.IntN(12) == 0 {
			c.ResourceName = fmt.Sprintf("other%d", s.number())
			return "resourceName " + c.ResourceName
		}
		return s.editScalable(r, c.Service)
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
	return s.editPods(r, &c.Job.ContainerSpec, &c.Job.PodSettings)
}

// removeComponent takes a component and the edges to it away.
func (s *subject) removeComponent(i int) string {
	spec := &s.stack.Spec
	name := spec.Components[i].Name
	if c := *spec.Components[i].DeepCopy(); c.Stateful != nil {
		c.DependsOn, c.Bindings, c.RenamedFrom = nil, nil, ""
		s.removed = append(s.removed, c)
	}
	spec.Components = slices.Delete(spec.Components, i, i+1)
	s.edges(name, "")
	return "component " + name + " less"
}

// edges makes those who need a component need another one, or none.
func (s *subject) edges(from, to string) {
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

func (s *subject) renameComponent(i int) string {
	c := &s.stack.Spec.Components[i]
	before := c.Name
	c.Name = fmt.Sprintf("ren%d", s.number())
	s.edges(before, c.Name)
	s.stack.Spec.Components[i].RenamedFrom = before
	return "component " + before + " renamed to " + c.Name
}

// editEdges adds an edge to an earlier component, or takes all away.
func (s *subject) editEdges(r *rand.Rand) string {
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

func (s *subject) editCloud(r *rand.Rand) string {
	spec := &s.cloud.Spec
	n := s.number()
	d := &spec.Front.Deployment
	if r.IntN(2) == 0 {
		d = &spec.Identity.Deployment
	}
	switch r.IntN(9) {
	case 0, 1:
		d.Image = fmt.Sprintf("app:%d", n)
		return "image " + d.Image
	case 2:
		d.Replicas = new(int32(r.IntN(4)))
		return fmt.Sprintf("replicas: %d", *d.Replicas)
	case 3:
		d.Env = []corev1.EnvVar{{Name: "N", Value: fmt.Sprint(n)}}
		return "env"
	case 4:
		if len(d.Ports) == 0 {
			d.Ports = []appsapi.Port{{Name: "http", Port: 8081}}
			return "a port"
		}
		d.Ports = nil
		return "no ports"
	case 5:
		spec.DB.StatefulSet.Image = fmt.Sprintf("mariadb:10.%d", n)
		return "image of the database"
	case 6:
		spec.DB.StatefulSet.Storage.Size.Add(resource.MustParse("1Gi"))
		spec.DB.StatefulSet.Storage.Size = resource.MustParse(spec.DB.StatefulSet.Storage.Size.String())
		return "more storage"
	case 7:
		d.Name = fmt.Sprintf("other%d", n)
		return "name " + d.Name
	}
	spec.DB.StatefulSet.Name = fmt.Sprintf("db%d", n)
	return "name of the database"
}
