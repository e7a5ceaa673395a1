package desired

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// podTemplate is the template of the pods of a component. Nothing in it may change by
// itself: not the UID of the owner, not the name of the component.
func podTemplate(rc renderContext, component appsapi.Component, workload, name string, c appsapi.ServerSpec, refs []refRecord) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	extraEnv := rc.bindingEnv(component)
	if component.Stateful != nil {
		extraEnv = append(extraEnv, credentialEnv(component.Stateful, rc.resourceName(component))...)
		if component.Database != nil {
			extraEnv = append(extraEnv, schemaEnv(component.Database)...)
		}
		if c.PreStopSleepSeconds == nil {
			c.PreStopSleepSeconds = new(int32(0)) // nobody takes over before it has ended
		}
		if c.TerminationGracePeriodSeconds == nil {
			c.TerminationGracePeriodSeconds = new(int32(statefulGracePeriod))
		}
	}
	c.Env = mergeBindingEnv(extraEnv, c.Env)
	main, err := container(name, c)
	if err != nil {
		return nil, err
	}
	spec := corev1ac.PodSpec().WithSecurityContext(podSecurityContext(c.Security)).
		// The API is not the application's business unless it says so.
		WithAutomountServiceAccountToken(c.ServiceAccountName != "").
		// Variables of the kind DB_PORT=tcp://... that appear with every Service of the
		// namespace get in the way of those that are meant.
		WithEnableServiceLinks(false)
	if c.ServiceAccountName != "" {
		// Under its old name, too: the API server fills that in, and takes the account back
		// from there when only the new name goes.
		spec.WithServiceAccountName(c.ServiceAccountName).WithDeprecatedServiceAccount(c.ServiceAccountName)
	}
	for _, s := range c.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	if s := c.TerminationGracePeriodSeconds; s != nil {
		spec.WithTerminationGracePeriodSeconds(int64(*s))
	}
	if err := applyScheduling(spec, workload, c.Scheduling); err != nil {
		return nil, err
	}
	var storage []string
	if component.Stateful != nil {
		storage = mountStorage(spec, main, component.Stateful)
		mountCredentials(spec, main, component.Stateful, rc.resourceName(component))
	}
	mountVolumes(spec, main, c.Volumes)
	mountFiles(spec, main, rc.resourceName(component), c.Config)
	if component.Database != nil {
		rc.addCredentialReset(spec, main, component)
	}
	spec.WithContainers(main)
	annotations := map[string]string{appsapi.AnnotationConfigHash: configHash(refs)}
	for k, v := range c.PodAnnotations {
		annotations[k] = string(v)
	}
	if c.Update.RestartedAt != "" {
		annotations[appsapi.AnnotationRestartedAt] = c.Update.RestartedAt
	}
	labels := map[string]string{}
	for k, v := range c.PodLabels {
		labels[k] = string(v)
	}
	maps.Copy(labels, podSelector(workload))
	labels[appsapi.LabelInstance] = rc.Name
	template := corev1ac.PodTemplateSpec().WithLabels(labels).WithAnnotations(annotations).WithSpec(spec)
	return applyOverlay(template, name, c.PodSettings, storage)
}

// applyScheduling says on which nodes pods run.
func applyScheduling(pod *corev1ac.PodSpecApplyConfiguration, workload string, s appsapi.SchedulingSettings) error {
	for k, v := range s.NodeSelector {
		pod.WithNodeSelector(map[string]string{k: string(v)})
	}
	for _, t := range s.Tolerations {
		toleration, err := toApplyConfig[corev1ac.TolerationApplyConfiguration](t)
		if err != nil {
			return err
		}
		pod.WithTolerations(toleration)
	}
	if s.PriorityClassName != "" {
		pod.WithPriorityClassName(s.PriorityClassName)
	}
	if s.Spread != appsapi.SpreadNone {
		pod.WithTopologySpreadConstraints(spreadConstraints(workload, s.Spread)...)
	}
	return nil
}

// spreadConstraints puts the pods of one revision on different nodes and zones where there is a
// choice. Only Hard keeps one from running, and never for the sake of zones: a node
// without one would get no pod at all.
func spreadConstraints(workload string, s appsapi.Spread) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	var out []*corev1ac.TopologySpreadConstraintApplyConfiguration
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		whenUnsatisfiable := corev1.ScheduleAnyway
		if s == appsapi.SpreadHard && key == corev1.LabelHostname {
			whenUnsatisfiable = corev1.DoNotSchedule
		}
		out = append(out, corev1ac.TopologySpreadConstraint().
			WithMaxSkew(1).WithTopologyKey(key).WithWhenUnsatisfiable(whenUnsatisfiable).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(workload))).
			WithMatchLabelKeys("pod-template-hash"))
	}
	return out
}
