package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindStatefulSet is the kind of the workload of a stateful component.
var KindStatefulSet = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

const (
	// maxStatefulSetName leaves room for the hash that Kubernetes appends in a label of the pods.
	maxStatefulSetName = 52
	// statefulGracePeriod is how long a pod with data may take to end: what it holds in memory
	// has to get to its volume.
	statefulGracePeriod = 120
	// statefulRevisionLimit is how many earlier templates Kubernetes keeps.
	statefulRevisionLimit = 5

	headlessSuffix = "-headless"
)

// buildStateful says what a component with data needs. Where its data is decides what everything
// is called but the Service: that has the name that the spec says now.
func (rc renderContext) buildStateful(c appsapi.Component, d *Component) {
	location := rc.dataLocations[c.Name]
	s := c.Stateful
	d.Type = componentType(c)
	d.ServiceName, d.ResourceName = d.ResourceName, location.statefulSet
	d.Workload = ID{Kind: KindStatefulSet, Name: location.statefulSet}
	d.WorkloadID = WorkloadID(KindStatefulSet.Kind, location.statefulSet)
	d.InvalidMessage = rc.validate(c, s.ServerSpec)
	if err := validateStorage(s); err != nil && d.InvalidMessage == "" {
		d.InvalidMessage = err.Error()
	}
	d.Data = &Data{Retained: location.retained, Conflict: location.conflict, Storage: s.Storage, Credentials: s.Credentials, Secret: location.statefulSet + authSuffix, Replicas: s.Replicas, OrphanedReplicas: rc.orphanedReplicas[c.Name]}
	d.Children = append(rc.withFiles(c, s.PodSettings, statefulSet(rc, c, location.statefulSet)), headlessService(rc.Owner, c, location.statefulSet))
	if n := s.Update.ProgressDeadlineSeconds; n != 0 {
		d.ProgressDeadlineSeconds = n
	}
	if len(s.Ports) > 0 {
		d.Children = append(d.Children, service(rc.Owner, c, d.ServiceName, d.WorkloadID))
	}
	if wantsBudget(s.ServerSpec, nil) {
		d.Children = append(d.Children, budget(rc.Owner, c, location.statefulSet, d.WorkloadID))
	}
	for _, p := range s.Ports {
		d.Endpoints = append(d.Endpoints, clusterEndpoint(rc.Namespace, d.ServiceName, p))
	}
	if c.Database != nil {
		rc.buildDatabase(c, d)
	}
}

func statefulSet(rc renderContext, c appsapi.Component, name string) Child {
	return Child{
		ID: ID{Kind: KindStatefulSet, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*appsv1.StatefulSet)
			return renderStatefulSet(rc, c, name, current)
		},
	}
}

func renderStatefulSet(rc renderContext, c appsapi.Component, name string, live *appsv1.StatefulSet) (*Config, error) {
	workload := WorkloadID(KindStatefulSet.Kind, name)
	if err := checkImmutableFields(name, live); err != nil {
		return nil, err
	}
	deps := dependencies(c)
	refs := consumedRefs(Refs(c), rc.refStates, metaOrNil(live))
	template, err := podTemplate(rc, c, workload, containerName, c.Stateful.ServerSpec, refs)
	if err != nil {
		return nil, &IncompatibleError{Message: err.Error()}
	}
	spec := appsv1ac.StatefulSetSpec().WithTemplate(template).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(workload))).
		WithServiceName(name + headlessSuffix).
		// Otherwise a pod that cannot start would keep the mended one from taking its place.
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
		WithRevisionHistoryLimit(statefulRevisionLimit).
		WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
			WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
			WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
	if s := c.Stateful.Update.MinReadySeconds; s != 0 {
		spec.WithMinReadySeconds(s)
	}
	spec.Replicas = c.Stateful.Replicas
	set := appsv1ac.StatefulSet(name, rc.Namespace).
		WithLabels(workloadLabels(rc.Owner, c, workload, c.Stateful.Image)).
		WithOwnerReferences(ownerReference(rc.Owner)).
		WithSpec(spec)
	annotateList(set.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, deps)
	annotateList(set.ObjectMetaApplyConfiguration, appsapi.AnnotationPreviousDependsOn, formerDependencies(deps, metaOrNil(live), live != nil && hasOldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)))
	annotateRefs(set.ObjectMetaApplyConfiguration, refs)
	hold, undo := statefulSetPodHold(spec)
	config, err := newHoldableConfig(set, set.ObjectMetaApplyConfiguration, template, hold, undo)
	if err != nil {
		return nil, err
	}
	if live != nil && !config.ReplacesPods(live) && !slices.Equal(dependsOnAnnotation(live), deps) {
		live = live.DeepCopy() // as for a Deployment
		live.Annotations[appsapi.AnnotationDependsOn] = strings.Join(deps, ",")
		return renderStatefulSet(rc, c, name, live)
	}
	return config, sendClaimTemplates(config, spec, c.Stateful, live, rc.orphanedReplicas[c.Name])
}

// sendClaimTemplates sends the claim templates without holding them: they cannot change, so those
// of a set that exists go along as they are. Growing makes the set anew.
func sendClaimTemplates(config *Config, spec *appsv1ac.StatefulSetSpecApplyConfiguration, c *appsapi.StatefulComponent, live *appsv1.StatefulSet, running int32) error {
	templates := claimTemplates(c.Storage)
	if live != nil {
		templates = nil
		for i := range live.Spec.VolumeClaimTemplates {
			t, err := toApplyConfig[corev1ac.PersistentVolumeClaimApplyConfiguration](live.Spec.VolumeClaimTemplates[i])
			if err != nil {
				return err
			}
			templates = append(templates, t)
		}
	}
	config.sendOnly = func() {
		spec.WithVolumeClaimTemplates(templates...)
		switch {
		case c.Replicas != nil:
		case live != nil:
			spec.Replicas = live.Spec.Replicas
		case running > 0: // one made anew has the pods of the one before
			spec.WithReplicas(running)
		}
	}
	return nil
}

// checkImmutableFields refuses a set whose fields that cannot change are not ours.
func checkImmutableFields(name string, live *appsv1.StatefulSet) error {
	if live == nil {
		return nil
	}
	ours := podSelector(WorkloadID(KindStatefulSet.Kind, name))
	field, want := "", ""
	switch s := live.Spec; {
	case s.Selector == nil || len(s.Selector.MatchExpressions) > 0 || !maps.Equal(s.Selector.MatchLabels, ours):
		field, want = "selector", fmt.Sprint(ours)
	case s.ServiceName != name+headlessSuffix:
		field, want = "serviceName", name+headlessSuffix
	case s.PodManagementPolicy != appsv1.ParallelPodManagement:
		field, want = "podManagementPolicy", string(appsv1.ParallelPodManagement)
	default:
		return nil
	}
	return &IncompatibleError{Message: fmt.Sprintf("its spec.%s is not %s, and cannot change; delete StatefulSet %s with --cascade=orphan, so that it is made anew around its pods",
		field, want, name)}
}

// statefulSetPodHold holds back the pod template.
func statefulSetPodHold(spec *appsv1ac.StatefulSetSpecApplyConfiguration) (g podTemplateHold, undo func()) {
	template := spec.Template
	return podTemplateHold{
		remove: func() { spec.Template = nil },
		restore: func(live metav1.Object) error {
			ours, err := appsv1ac.ExtractStatefulSet(live.(*appsv1.StatefulSet), appsapi.FieldManager)
			if err == nil && ours.Spec != nil {
				spec.Template = ours.Spec.Template
			}
			return err
		},
	}, func() { spec.Template = template }
}

// headlessService gives each pod of a set a name that can be looked up, ready or not: those who
// form a cluster have to find each other first.
func headlessService(owner Owner, c appsapi.Component, set string) Child {
	id := ID{Kind: KindService, Name: set + headlessSuffix}
	return Child{ID: id, Render: func(runtime.Object) (*Config, error) {
		spec := corev1ac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(podSelector(WorkloadID(KindStatefulSet.Kind, set))).
			WithPorts(servicePorts(c.Stateful.Ports)...)
		s := corev1ac.Service(id.Name, owner.Namespace).
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReference(owner)).
			WithSpec(spec)
		return newConfig(s, s.ObjectMetaApplyConfiguration)
	}}
}
