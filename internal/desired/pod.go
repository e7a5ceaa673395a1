package desired

import (
	"cmp"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// podInputs are the inputs of a pod template that do not come from the settings of its component.
type podInputs struct {
	workload, container string
	refs                []refRecord
	// restart is the last requested restart; "" if none was requested.
	restart string
}

// lastRestart returns the last restart that was requested for the pods of a component. If the request was
// removed from the application, for example by kubectl replace, the live pods show it. Without it, the removal
// would replace the pods.
func lastRestart(keys *appsapi.Keys, c ExpandedComponent, live runtime.Object) string {
	var pods map[string]string
	switch workload := live.(type) {
	case *appsv1.Deployment:
		if workload != nil {
			pods = workload.Spec.Template.Annotations
		}
	case *appsv1.StatefulSet:
		if workload != nil {
			pods = workload.Spec.Template.Annotations
		}
	}
	return cmp.Or(c.Operations.RestartRequestedAt, pods[keys.RestartedAt])
}

// podTemplate returns the pod template of a component. It must not depend on anything that changes without a
// change of the pods, such as the UID of the owner or the name of the component.
func podTemplate(rc renderContext, component ExpandedComponent, in podInputs, c appsapi.ServerSpec) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	extraEnv := rc.bindingEnv(component)
	if component.Stateful != nil {
		extraEnv = append(extraEnv, credentialEnv(component.Stateful, rc.childrenName(component))...)
		if component.Database != nil {
			extraEnv = append(extraEnv, schemaEnv(component.Database)...)
		}
		if c.PreStopSleepSeconds == nil {
			c.PreStopSleepSeconds = new(int32(0)) // no other pod takes over before the old one has terminated
		}
		if c.TerminationGracePeriodSeconds == nil {
			c.TerminationGracePeriodSeconds = new(int32(statefulGracePeriod))
		}
	}
	c.Env = mergeBindingEnv(extraEnv, c.Env)
	main, err := container(in.container, c)
	if err != nil {
		return nil, err
	}
	spec := corev1ac.PodSpec().WithSecurityContext(podSecurityContext(c.Security)).
		// Applications get no API token unless serviceAccountName is set.
		WithAutomountServiceAccountToken(c.ServiceAccountName != "").
		// Service link variables such as DB_PORT=tcp://... would conflict with the variables of bindings.
		WithEnableServiceLinks(false)
	if c.ServiceAccountName != "" {
		// The API server copies serviceAccountName to the deprecated field serviceAccount. If only serviceAccountName
		// were owned, removing it would have no effect: the API server would restore it from serviceAccount.
		spec.WithServiceAccountName(c.ServiceAccountName).WithDeprecatedServiceAccount(c.ServiceAccountName)
	}
	for _, s := range c.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	if s := c.TerminationGracePeriodSeconds; s != nil {
		spec.WithTerminationGracePeriodSeconds(int64(*s))
	}
	if err := applyScheduling(rc.Keys, spec, in.workload, c.Scheduling); err != nil {
		return nil, err
	}
	var storage []string
	if component.Stateful != nil {
		storage = mountStorage(spec, main, component.Stateful)
		mountCredentials(spec, main, component, rc.childrenName(component))
	}
	mountVolumes(spec, main, c.Volumes)
	mountFiles(spec, main, rc.childrenName(component), c.Config)
	if component.Database != nil {
		rc.addCredentialReset(spec, main, component)
		waitUntilServerRuns(main)
	}
	spec.WithContainers(main)
	annotations := map[string]string{rc.Keys.ConfigHash: configHash(in.refs)}
	for k, v := range c.PodAnnotations {
		annotations[k] = string(v)
	}
	if in.restart != "" {
		annotations[rc.Keys.RestartedAt] = in.restart
	}
	labels := map[string]string{}
	for k, v := range c.PodLabels {
		labels[k] = string(v)
	}
	maps.Copy(labels, podSelector(rc.Keys, in.workload))
	labels[appsapi.LabelInstance] = rc.Name
	template := corev1ac.PodTemplateSpec().WithLabels(labels).WithAnnotations(annotations).WithSpec(spec)
	return applyOverlay(rc.Keys, template, in.container, c.PodSettings, storage)
}

// applyScheduling sets the scheduling fields of a pod.
func applyScheduling(keys *appsapi.Keys, pod *corev1ac.PodSpecApplyConfiguration, workload string, s appsapi.SchedulingSettings) error {
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
		pod.WithTopologySpreadConstraints(spreadConstraints(keys, workload, s.Spread)...)
	}
	return nil
}

// spreadConstraints spreads the pods of one revision over nodes and zones. Only Hard sets whenUnsatisfiable:
// DoNotSchedule, and only for nodes: with DoNotSchedule for zones, the scheduler would not use nodes without a
// zone label.
func spreadConstraints(keys *appsapi.Keys, workload string, s appsapi.Spread) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	var out []*corev1ac.TopologySpreadConstraintApplyConfiguration
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		whenUnsatisfiable := corev1.ScheduleAnyway
		if s == appsapi.SpreadHard && key == corev1.LabelHostname {
			whenUnsatisfiable = corev1.DoNotSchedule
		}
		out = append(out, corev1ac.TopologySpreadConstraint().
			WithMaxSkew(1).WithTopologyKey(key).WithWhenUnsatisfiable(whenUnsatisfiable).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(keys, workload))).
			WithMatchLabelKeys("pod-template-hash"))
	}
	return out
}
