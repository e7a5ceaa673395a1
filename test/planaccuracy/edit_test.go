package planaccuracy

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// randomEdit returns a copy with one to three edits and their descriptions.
func (s *editedApp) randomEdit(r *rand.Rand) (*editedApp, []string) {
	out := s.copy()
	var edits []string
	switch { // nothing happens while suspended
	case out.service != nil && out.service.Spec.Suspend && r.IntN(3) > 0:
		out.service.Spec.Suspend = false
		edits = append(edits, "suspend: false")
	case out.stack != nil && out.stack.Spec.Suspend && r.IntN(3) > 0:
		out.stack.Spec.Suspend = false
		edits = append(edits, "suspend all: false")
	}
	for range 1 + r.IntN(3) {
		switch {
		case out.service != nil:
			edits = append(edits, out.editService(r))
		case out.stack != nil:
			edits = append(edits, out.editStack(r))
		default:
			edits = append(edits, out.editCloudManager(r))
		}
	}
	return out, edits
}

func (s *editedApp) nextNumber() int { s.counter++; return s.counter }

func (s *editedApp) editService(r *rand.Rand) string {
	if r.IntN(12) == 0 {
		s.service.Spec.Suspend = !s.service.Spec.Suspend
		return fmt.Sprintf("suspend: %t", s.service.Spec.Suspend)
	}
	return s.editServiceComponent(r, &s.service.Spec.ServiceComponent)
}

// editServiceComponent edits fields of services, and fields that all servers share.
func (s *editedApp) editServiceComponent(r *rand.Rand, c *appsapi.ServiceComponent) string {
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
			c.Expose = &appsapi.ExposeSettings{Hostnames: []string{fmt.Sprintf("h%d.example.com", s.nextNumber())}, IngressClassName: "nginx"}
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
			n := s.nextNumber()
			c.Ports[0].TargetPort = int32(8000 + n)
			return "another targetPort"
		}
		n := s.nextNumber()
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

// editServer edits fields of services with and without storage.
func (s *editedApp) editServer(r *rand.Rand, c *appsapi.ServerSpec) string {
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
		c.Update.MinReadySeconds = int32(r.IntN(3))
		return fmt.Sprintf("minReadySeconds %d", c.Update.MinReadySeconds)
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
	return s.editPodSettings(r, &c.ContainerSpec, &c.PodSettings)
}

// editPodSettings edits fields that all pods share.
func (s *editedApp) editPodSettings(r *rand.Rand, c *appsapi.ContainerSpec, p *appsapi.PodSettings) string {
	n := s.nextNumber()
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

func (s *editedApp) editCloudManager(r *rand.Rand) string {
	spec := &s.cloudManager.Spec
	n := s.nextNumber()
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
