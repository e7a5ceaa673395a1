package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindDeployment is the kind of the workload of a service.
var KindDeployment = appsv1.SchemeGroupVersion.WithKind("Deployment")

// The Kubernetes default in seconds, set explicitly so that the configuration does not depend on the API server.
const defaultProgressDeadline = 600

// deployment returns the Deployment of a service.
func deployment(rc renderContext, c ExpandedComponent, name string) Child {
	return Child{
		ID: ID{Kind: KindDeployment, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*appsv1.Deployment)
			return renderDeployment(rc, c, name, current)
		},
	}
}

func renderDeployment(rc renderContext, c ExpandedComponent, name string, live *appsv1.Deployment) (*Config, error) {
	service := *c.Service
	workload := WorkloadID(KindDeployment.Kind, name)
	main, err := mainContainerName(rc.Keys, live, workload)
	if err != nil {
		return nil, err
	}
	deps, refs := dependencies(c), consumedRefs(rc.Keys, Refs(c), rc.refStates, metaOrNil(live))
	template, err := podTemplate(rc, c, podInputs{workload, main, refs, lastRestart(rc.Keys, c, live)}, service.ServerSpec)
	if err != nil {
		return nil, &IncompatibleError{Message: err.Error()}
	}
	spec := appsv1ac.DeploymentSpec().WithTemplate(template).
		WithProgressDeadlineSeconds(defaultProgressDeadline).
		WithStrategy(strategy(service.Update))
	if s := service.Update.ProgressDeadlineSeconds; s != 0 {
		spec.WithProgressDeadlineSeconds(s)
	}
	if s := rc.minReadySeconds(c, service.Update, template); s != 0 {
		spec.WithMinReadySeconds(s)
	}
	spec.Replicas = service.Replicas
	// A selector is immutable: an adopted Deployment keeps its selector.
	if live == nil || hasOperatorSelector(rc.Keys, live, workload) {
		spec.WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(rc.Keys, workload)))
	} else if err := checkSelectorMatches(live, template.Labels); err != nil {
		return nil, err
	}
	d := appsv1ac.Deployment(name, rc.Namespace).
		WithLabels(workloadLabels(rc.Owner, c, workload, service.Image)).
		WithOwnerReferences(ownerReferenceConfig(rc.Owner)).
		WithSpec(spec)
	if main != containerName {
		d.WithAnnotations(map[string]string{rc.Keys.Container: main})
	}
	annotateList(d.ObjectMetaApplyConfiguration, rc.Keys.DependsOn, deps)
	annotateList(d.ObjectMetaApplyConfiguration, rc.Keys.PreviousDependsOn, formerDependencies(rc.Keys, deps, metaOrNil(live), live != nil && hasOldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)))
	annotateRefs(rc.Keys, d.ObjectMetaApplyConfiguration, refs)
	hold, undo := deploymentPodHold(rc.Keys, spec)
	config, err := newHoldableConfig(rc.Keys, d, d.ObjectMetaApplyConfiguration, template, hold, undo)
	if err != nil {
		return nil, err
	}
	if live != nil && !config.ReplacesPods(live) && !slices.Equal(dependsOnAnnotation(rc.Keys, live), deps) {
		// The hash of the pod template includes the dependencies and has not changed. So another client has
		// changed the annotation, and its value must not be recorded as a previous dependency.
		live = live.DeepCopy()
		live.Annotations[rc.Keys.DependsOn] = strings.Join(deps, ",")
		return renderDeployment(rc, c, name, live)
	}
	// If spec.replicas were owned, removing it would reset it to 1. So the live value is sent with the
	// resourceVersion as precondition, but is not part of the configuration.
	switch {
	case service.Replicas == nil && live != nil:
		config.sendOnly = func() { spec.Replicas = live.Spec.Replicas }
	case service.Autoscaling != nil && service.Autoscaling.MinReplicas > 1:
		// Otherwise the Deployment would start with the default of 1 replica until the HorizontalPodAutoscaler
		// scales it up about 30 seconds later.
		config.sendOnly = func() { spec.WithReplicas(service.Autoscaling.MinReplicas) }
	}
	return config, nil
}

func strategy(u appsapi.UpdateSettings) *appsv1ac.DeploymentStrategyApplyConfiguration {
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if u.MaxSurge != nil {
		surge = *u.MaxSurge
	}
	if u.MaxUnavailable != nil {
		unavailable = *u.MaxUnavailable
	}
	return appsv1ac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
		WithRollingUpdate(appsv1ac.RollingUpdateDeployment().WithMaxSurge(surge).WithMaxUnavailable(unavailable))
}

// hasOperatorSelector reports whether a Deployment has the selector that the operator creates. An adopted
// Deployment has another one.
func hasOperatorSelector(keys *appsapi.Keys, live *appsv1.Deployment, workload string) bool {
	s := live.Spec.Selector
	return s != nil && len(s.MatchExpressions) == 0 && maps.Equal(s.MatchLabels, podSelector(keys, workload))
}

// checkSelectorMatches rejects a Deployment whose immutable selector does not match the labels that the operator
// sets on pods.
func checkSelectorMatches(live *appsv1.Deployment, ours map[string]string) error {
	s, err := metav1.LabelSelectorAsSelector(live.Spec.Selector)
	if err != nil {
		return fmt.Errorf("read the selector of Deployment %s: %w", live.Name, err)
	}
	all := maps.Clone(ours)
	for k, v := range live.Spec.Template.Labels {
		if _, ok := ours[k]; !ok {
			all[k] = v
		}
	}
	if s.Matches(labels.Set(all)) {
		return nil
	}
	return &IncompatibleError{Message: fmt.Sprintf("its selector %q does not match the labels that Holdfast sets on its pods (%s), "+
		"and a selector is immutable; delete Deployment %s to have it recreated", s, labels.Set(ours), live.Name)}
}

// mainContainerName returns the name of the main container: the default name, or in an adopted workload the name
// of the adopted container.
func mainContainerName(keys *appsapi.Keys, live *appsv1.Deployment, workload string) (string, error) {
	if live == nil {
		return containerName, nil
	}
	var names []string
	for i := range live.Spec.Template.Spec.Containers {
		names = append(names, live.Spec.Template.Spec.Containers[i].Name)
	}
	adoptedName := live.Annotations[keys.Container]
	switch {
	// The main container does not change if another client adds a container with the default name to an adopted
	// workload, or adds the annotation to a workload that the operator created.
	case slices.Contains(names, adoptedName) && !hasOperatorSelector(keys, live, workload):
		return adoptedName, nil
	case slices.Contains(names, containerName), len(names) == 0:
		return containerName, nil
	case len(names) == 1 && hasAdoptAnnotation(keys, live):
		return names[0], nil
	case !hasAdoptAnnotation(keys, live): // another client renamed or removed the main container: restore it
		return containerName, nil
	}
	return "", &IncompatibleError{Message: fmt.Sprintf("it has the containers %v but none is named %q, so the main container is ambiguous; "+
		"rename the main container to %q", names, containerName, containerName)}
}
