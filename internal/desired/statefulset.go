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
	// maxStatefulSetName leaves room for the hash that Kubernetes appends to the name in a pod label.
	maxStatefulSetName = 52
	// statefulGracePeriod is the time in seconds that a pod with data has to write its state to its volume.
	statefulGracePeriod = 120
	// statefulRevisionLimit is the number of previous pod templates that Kubernetes keeps.
	statefulRevisionLimit = 5

	headlessSuffix = "-headless"
)

// buildStateful builds a component with data. The location of the data determines all names except for the name
// of the Service, which follows the spec.
func (rc renderContext) buildStateful(c ExpandedComponent, d *Component) {
	location := rc.dataLocations[c.Name]
	s := c.Stateful
	d.Type = TypeOf(c.Component)
	d.ServiceName, d.ResourceName = d.ResourceName, location.statefulSet
	d.Workload = ID{Kind: KindStatefulSet, Name: location.statefulSet}
	d.WorkloadID = WorkloadID(KindStatefulSet.Kind, location.statefulSet)
	d.DefaultReadinessProbe = hasDefaultReadinessProbe(s.ServerSpec)
	d.setInvalid(rc.validate(c, s.ServerSpec), validateStorage(s), validateSchemaName(c.Database))
	d.Data = &StatefulData{Retained: location.retained, Conflict: location.conflict, StartsEmpty: location.startsEmpty, Storage: s.Storage, Credentials: c.Credentials, Secret: location.statefulSet + authSuffix, Replicas: s.Replicas, OrphanedReplicas: rc.orphanedReplicas[c.Name]}
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

func statefulSet(rc renderContext, c ExpandedComponent, name string) Child {
	return Child{
		ID: ID{Kind: KindStatefulSet, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*appsv1.StatefulSet)
			return renderStatefulSet(rc, c, name, current)
		},
	}
}

func renderStatefulSet(rc renderContext, c ExpandedComponent, name string, live *appsv1.StatefulSet) (*Config, error) {
	workload := WorkloadID(KindStatefulSet.Kind, name)
	if err := checkImmutableFields(rc.Keys, name, live); err != nil {
		return nil, err
	}
	deps := dependencies(c)
	refs := consumedRefs(rc.Keys, Refs(c), rc.refStates, metaOrNil(live))
	template, err := podTemplate(rc, c, podInputs{workload, containerName, refs, lastRestart(rc.Keys, c, live)}, c.Stateful.ServerSpec)
	if err != nil {
		return nil, &IncompatibleError{Message: err.Error()}
	}
	spec := appsv1ac.StatefulSetSpec().WithTemplate(template).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(rc.Keys, workload))).
		WithServiceName(name + headlessSuffix).
		// With OrderedReady, a pod that cannot start would block the rollout of a corrected template.
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
		WithRevisionHistoryLimit(statefulRevisionLimit).
		WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
			WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
			WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
	if s := rc.minReadySeconds(c, c.Stateful.Update, template); s != 0 {
		spec.WithMinReadySeconds(s)
	}
	spec.Replicas = c.Stateful.Replicas
	set := appsv1ac.StatefulSet(name, rc.Namespace).
		WithLabels(workloadLabels(rc.Owner, c, workload, c.Stateful.Image)).
		WithOwnerReferences(ownerReferenceConfig(rc.Owner)).
		WithSpec(spec)
	annotateList(set.ObjectMetaApplyConfiguration, rc.Keys.DependsOn, deps)
	annotateList(set.ObjectMetaApplyConfiguration, rc.Keys.PreviousDependsOn, formerDependencies(rc.Keys, deps, metaOrNil(live), live != nil && hasOldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)))
	annotateRefs(rc.Keys, set.ObjectMetaApplyConfiguration, refs)
	hold, undo := statefulSetPodHold(rc.Keys, spec)
	config, err := newHoldableConfig(rc.Keys, set, set.ObjectMetaApplyConfiguration, template, hold, undo)
	if err != nil {
		return nil, err
	}
	if live != nil && !config.ReplacesPods(live) && !slices.Equal(dependsOnAnnotation(rc.Keys, live), deps) {
		live = live.DeepCopy() // as in renderDeployment
		live.Annotations[rc.Keys.DependsOn] = strings.Join(deps, ",")
		return renderStatefulSet(rc, c, name, live)
	}
	return config, sendClaimTemplates(config, spec, c.Stateful, live, rc.orphanedReplicas[c.Name])
}

// sendClaimTemplates sends the claim templates without adding them to the configuration: they are immutable, so
// the templates of an existing StatefulSet are sent unchanged. Expanding volumes recreates the StatefulSet.
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
		case running > 0: // a recreated StatefulSet keeps its pods
			spec.WithReplicas(running)
		}
	}
	return nil
}

// checkImmutableFields rejects a StatefulSet whose immutable fields differ.
func checkImmutableFields(keys *appsapi.Keys, name string, live *appsv1.StatefulSet) error {
	if live == nil {
		return nil
	}
	ours := podSelector(keys, WorkloadID(KindStatefulSet.Kind, name))
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
	return &IncompatibleError{Message: fmt.Sprintf("its spec.%s is not %s, and the field is immutable; "+
		"delete StatefulSet %s with --cascade=orphan to have it recreated without restarting its pods",
		field, want, name)}
}

// statefulSetPodHold holds back the pod template of a StatefulSet.
func statefulSetPodHold(keys *appsapi.Keys, spec *appsv1ac.StatefulSetSpecApplyConfiguration) (g podTemplateHold, undo func()) {
	template := spec.Template
	return podTemplateHold{
		remove: func() { spec.Template = nil },
		restore: func(live metav1.Object) error {
			ours, err := appsv1ac.ExtractStatefulSet(live.(*appsv1.StatefulSet), keys.FieldManager)
			if err == nil && ours.Spec != nil {
				spec.Template = ours.Spec.Template
			}
			return err
		},
	}, func() { spec.Template = template }
}

// headlessService returns the Service that gives each pod a DNS name, ready or not: members of a cluster must
// find each other before they are ready.
func headlessService(owner Owner, c ExpandedComponent, set string) Child {
	id := ID{Kind: KindService, Name: set + headlessSuffix}
	return Child{ID: id, Render: func(runtime.Object) (*Config, error) {
		spec := corev1ac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(podSelector(owner.Keys, WorkloadID(KindStatefulSet.Kind, set))).
			WithPorts(servicePorts(c.Stateful.Ports)...)
		s := corev1ac.Service(id.Name, owner.Namespace).
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReferenceConfig(owner)).
			WithSpec(spec)
		return newConfig(owner.Keys, s, s.ObjectMetaApplyConfiguration)
	}}
}
