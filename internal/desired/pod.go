package desired

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// podTemplate is the template of the pods of a component. Nothing in it may change by
// itself: not the UID of the owner, not the name of the component.
func podTemplate(a application, of appsapi.Component, workload, name string, c appsapi.ServiceComponent, consumed []record) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	c.Env = withBindings(a.bindings(of), c.Env)
	main, err := container(name, c)
	if err != nil {
		return nil, err
	}
	labels := selector(workload)
	labels[appsapi.LabelInstance] = a.Name
	spec := corev1ac.PodSpec().WithContainers(main).
		WithSecurityContext(podSecurity(c.Security)).
		WithTopologySpreadConstraints(spread(workload)...).
		// The API is not the application's business unless it says so.
		WithAutomountServiceAccountToken(false).
		// Variables of the kind DB_PORT=tcp://... that appear with every Service of the
		// namespace get in the way of those that are meant.
		WithEnableServiceLinks(false)
	for _, s := range c.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	if s := c.TerminationGracePeriodSeconds; s != nil {
		spec.WithTerminationGracePeriodSeconds(int64(*s))
	}
	annotations := map[string]string{appsapi.AnnotationConfig: configHash(consumed)}
	if c.Update.RestartedAt != "" {
		annotations[appsapi.AnnotationRestartedAt] = c.Update.RestartedAt
	}
	return corev1ac.PodTemplateSpec().WithLabels(labels).WithAnnotations(annotations).WithSpec(spec), nil
}

// spread puts the pods of one revision on different nodes and zones where there is a
// choice, and never keeps one from running.
func spread(workload string) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	var out []*corev1ac.TopologySpreadConstraintApplyConfiguration
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		out = append(out, corev1ac.TopologySpreadConstraint().
			WithMaxSkew(1).WithTopologyKey(key).WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(selector(workload))).
			WithMatchLabelKeys("pod-template-hash"))
	}
	return out
}
