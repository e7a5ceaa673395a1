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

// Kubernetes' own default, written down: what we hold must not depend on it.
const defaultProgressDeadline = 600

// deployment is the workload of a service.
func deployment(rc renderContext, c appsapi.Component, name string) Child {
	return Child{
		ID: ID{Kind: KindDeployment, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*appsv1.Deployment)
			return renderDeployment(rc, c, name, current)
		},
	}
}

func renderDeployment(rc renderContext, c appsapi.Component, name string, live *appsv1.Deployment) (*Config, error) {
	service := *c.Service
	workload := WorkloadID(KindDeployment.Kind, name)
	main, err := mainContainerName(live, workload)
	if err != nil {
		return nil, err
	}
	deps, refs := dependencies(c), consumedRefs(Refs(c), rc.refStates, metaOrNil(live))
	template, err := podTemplate(rc, c, workload, main, service.ServerSpec, refs)
	if err != nil {
		return nil, &IncompatibleError{Message: err.Error()}
	}
	spec := appsv1ac.DeploymentSpec().WithTemplate(template).
		WithProgressDeadlineSeconds(defaultProgressDeadline).
		WithStrategy(strategy(service.Update))
	if s := service.Update.ProgressDeadlineSeconds; s != 0 {
		spec.WithProgressDeadlineSeconds(s)
	}
	if s := service.Update.MinReadySeconds; s != 0 {
		spec.WithMinReadySeconds(s)
	}
	spec.Replicas = service.Replicas
	// A selector cannot change: an adopted Deployment keeps its own.
	if live == nil || hasOwnSelector(live, workload) {
		spec.WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(workload)))
	} else if err := checkSelectorMatches(live, template.Labels); err != nil {
		return nil, err
	}
	d := appsv1ac.Deployment(name, rc.Namespace).
		WithLabels(workloadLabels(rc.Owner, c, workload, service.Image)).
		WithOwnerReferences(ownerReference(rc.Owner)).
		WithSpec(spec)
	if main != containerName {
		d.WithAnnotations(map[string]string{appsapi.AnnotationContainer: main})
	}
	annotateList(d.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, deps)
	annotateList(d.ObjectMetaApplyConfiguration, appsapi.AnnotationPreviousDependsOn, formerDependencies(deps, metaOrNil(live), live != nil && hasOldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)))
	annotateRefs(d.ObjectMetaApplyConfiguration, refs)
	hold, undo := deploymentPodHold(spec)
	config, err := newHoldableConfig(d, d.ObjectMetaApplyConfiguration, template, hold, undo)
	if err != nil {
		return nil, err
	}
	if live != nil && !config.ReplacesPods(live) && !slices.Equal(dependsOnAnnotation(live), deps) {
		// Its pods were made with these edges: somebody else has written others on it, which
		// nothing ever needed.
		live = live.DeepCopy()
		live.Annotations[appsapi.AnnotationDependsOn] = strings.Join(deps, ",")
		return renderDeployment(rc, c, name, live)
	}
	// A field that we once set and no longer send would fall back to 1. So the live count
	// goes along, pinned by the resourceVersion of the apply, but is not held.
	switch {
	case service.Replicas == nil && live != nil:
		config.sendOnly = func() { spec.Replicas = live.Spec.Replicas }
	case service.Autoscaling != nil && service.Autoscaling.MinReplicas > 1:
		// It would make these of the one that is the default, half a minute later.
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

func hasOwnSelector(live *appsv1.Deployment, workload string) bool {
	s := live.Spec.Selector
	return s != nil && len(s.MatchExpressions) == 0 && maps.Equal(s.MatchLabels, podSelector(workload))
}

// checkSelectorMatches refuses a workload that would no longer find its pods once they have our
// labels: its selector cannot change.
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
	return &IncompatibleError{Message: fmt.Sprintf("its selector %q does not match the labels that Holdfast gives its pods (%s), and a selector cannot change; "+
		"delete Deployment %s, so that it is made anew", s, labels.Set(ours), live.Name)}
}

// mainContainerName is the name of the container that is the component's: ours, or in an
// adopted workload the one we took over.
func mainContainerName(live *appsv1.Deployment, workload string) (string, error) {
	if live == nil {
		return containerName, nil
	}
	var names []string
	for i := range live.Spec.Template.Spec.Containers {
		names = append(names, live.Spec.Template.Spec.Containers[i].Name)
	}
	adoptedName := live.Annotations[appsapi.AnnotationContainer]
	switch {
	// Somebody may add a container called like ours to a workload that we took over, or
	// our annotation to one that we made ourselves: neither changes which one is ours.
	case slices.Contains(names, adoptedName) && !hasOwnSelector(live, workload):
		return adoptedName, nil
	case slices.Contains(names, containerName), len(names) == 0:
		return containerName, nil
	case len(names) == 1 && hasAdoptAnnotation(live):
		return names[0], nil
	case !hasAdoptAnnotation(live): // somebody renamed or removed it: ours comes back
		return containerName, nil
	}
	return "", &IncompatibleError{Message: fmt.Sprintf("it has the containers %v and none is called %q, so it is not clear which one is the service; "+
		"name one of them %q", names, containerName, containerName)}
}
