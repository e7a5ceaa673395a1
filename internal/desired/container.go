package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// containerName is the same for every component, so that overlays, scripts and `kubectl logs -c` do not depend
	// on the component.
	containerName = "app"

	defaultPreStopSleep = 5
)

// container returns the main container of a component with the given name.
func container(name string, c appsapi.ServerSpec) (*corev1ac.ContainerApplyConfiguration, error) {
	out, err := toApplyConfig[corev1ac.ContainerApplyConfiguration](corev1.Container{
		Name: name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, Command: c.Command, Args: c.Args,
		Ports: containerPorts(c.Ports), Env: withFieldRefDefaults(c.Env), EnvFrom: c.EnvFrom, Resources: c.Resources,
		ReadinessProbe: readinessProbe(c), LivenessProbe: c.Probes.Liveness, StartupProbe: c.Probes.Startup,
		Lifecycle: lifecycle(c), SecurityContext: containerSecurityContext(c.Security),
		// Makes the last log lines of a crash readable from the pod status, without permission to read logs.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	})
	if err != nil {
		return nil, err
	}
	if len(c.Resources.Requests)+len(c.Resources.Limits)+len(c.Resources.Claims) == 0 {
		out.Resources = nil // the core type encodes an empty struct, which would own the field
	}
	return out, nil
}

// containerPorts returns each container port once, even if several Service ports target it.
func containerPorts(ports []appsapi.Port) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range ports {
		cp := corev1.ContainerPort{Name: p.Name, ContainerPort: targetPort(p), Protocol: protocol(p)}
		if slices.ContainsFunc(out, func(o corev1.ContainerPort) bool {
			return o.ContainerPort == cp.ContainerPort && o.Protocol == cp.Protocol
		}) {
			continue
		}
		out = append(out, cp)
	}
	return out
}

func targetPort(p appsapi.Port) int32 {
	if p.TargetPort != 0 {
		return p.TargetPort
	}
	return p.Port
}

func protocol(p appsapi.Port) corev1.Protocol {
	if p.Protocol != "" {
		return p.Protocol
	}
	return corev1.ProtocolTCP
}

// withFieldRefDefaults sets the API server default of fieldRef.apiVersion: fieldRef is atomic, so a missing
// default would count as drift.
func withFieldRefDefaults(vars []corev1.EnvVar) []corev1.EnvVar {
	out := slices.Clone(vars)
	for i := range out {
		if from := out[i].ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
			out[i].ValueFrom = from.DeepCopy()
			out[i].ValueFrom.FieldRef.APIVersion = "v1"
		}
	}
	return out
}

// readinessProbe returns the readiness probe of the spec, or a probe of the first TCP port.
func readinessProbe(c appsapi.ServerSpec) *corev1.Probe {
	if c.Probes.Readiness != nil {
		return c.Probes.Readiness
	}
	for _, p := range c.Ports {
		if protocol(p) == corev1.ProtocolTCP {
			return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(targetPort(p))}}}
		}
	}
	return nil
}

// hasDefaultReadinessProbe reports whether the readiness probe is not in the spec.
func hasDefaultReadinessProbe(c appsapi.ServerSpec) bool {
	return c.Probes.Readiness == nil && readinessProbe(c) != nil
}

// lifecycle returns a preStop hook that keeps a terminating pod serving.
func lifecycle(c appsapi.ServerSpec) *corev1.Lifecycle {
	seconds := preStopSleep(c)
	if seconds == 0 {
		return nil
	}
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(seconds)}}}
}

// preStopSleep returns the duration of the preStop hook, which is part of the grace period.
func preStopSleep(c appsapi.ServerSpec) int32 {
	switch {
	case c.PreStopSleepSeconds != nil:
		return *c.PreStopSleepSeconds
	case len(c.Ports) == 0:
		return 0
	case c.TerminationGracePeriodSeconds != nil:
		return min(defaultPreStopSleep, *c.TerminationGracePeriodSeconds)
	}
	return defaultPreStopSleep
}

func containerSecurityContext(s appsapi.SecuritySettings) *corev1.SecurityContext {
	out := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: s.ReadOnlyRootFilesystem}
	if s.Level == appsapi.SecurityRestricted {
		out.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	return out
}

func podSecurityContext(s appsapi.SecuritySettings) *corev1ac.PodSecurityContextApplyConfiguration {
	out := corev1ac.PodSecurityContext().
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	if s.Level == appsapi.SecurityRestricted {
		out.WithRunAsNonRoot(true)
	}
	out.RunAsUser, out.RunAsGroup, out.FSGroup = s.RunAsUser, s.RunAsGroup, s.FSGroup
	return out
}
