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
	// maxStatefulSet leaves room for the hash that Kubernetes appends in a label of the pods.
	maxStatefulSet = 52
	// statefulGrace is how long a pod with data may take to end: what it holds in memory
	// has to get to its volume.
	statefulGrace = 120
	// statefulHistory is how many earlier templates Kubernetes keeps.
	statefulHistory = 5

	headlessSuffix = "-headless"
)

// stateful says what a component with data needs. Where its data is decides what everything
// is called but the Service: that has the name that the spec says now.
func (a application) stateful(c appsapi.Component, d *Component) {
	h := a.homes[c.Name]
	s := c.Stateful
	d.Type = typeOf(c)
	d.Address, d.ResourceName = d.ResourceName, h.set
	d.Workload = ID{Kind: KindStatefulSet, Name: h.set}
	d.WorkloadID = WorkloadID(KindStatefulSet.Kind, h.set)
	d.Invalid = a.invalid(c, s.ServerSpec)
	if err := soundStorage(s); err != nil && d.Invalid == "" {
		d.Invalid = err.Error()
	}
	d.Data = &Data{Kept: h.kept, Refused: h.refused, Storage: s.Storage, Credentials: s.Credentials, Secret: h.set + authSuffix, Replicas: s.Replicas, Running: a.running[c.Name]}
	d.Children = append(a.withFiles(c, s.PodSettings, statefulSet(a, c, h.set)), headless(a.Owner, c, h.set))
	if n := s.Update.ProgressDeadlineSeconds; n != 0 {
		d.ProgressDeadlineSeconds = n
	}
	if len(s.Ports) > 0 {
		d.Children = append(d.Children, service(a.Owner, c, d.Address, d.WorkloadID))
	}
	if wantsBudget(s.ServerSpec, nil) {
		d.Children = append(d.Children, budget(a.Owner, c, h.set, d.WorkloadID))
	}
	for _, p := range s.Ports {
		d.Endpoints = append(d.Endpoints, endpoint(a.Namespace, d.Address, p))
	}
	if c.Database != nil {
		a.database(c, d)
	}
}

func statefulSet(a application, c appsapi.Component, name string) Child {
	return Child{
		ID: ID{Kind: KindStatefulSet, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*appsv1.StatefulSet)
			return renderStatefulSet(a, c, name, current)
		},
	}
}

func renderStatefulSet(a application, c appsapi.Component, name string, live *appsv1.StatefulSet) (*Config, error) {
	workload := WorkloadID(KindStatefulSet.Kind, name)
	if err := fixed(name, live); err != nil {
		return nil, err
	}
	edges := dependencies(c)
	refs := consumed(Refs(c), a.contents, metaOf(live))
	template, err := podTemplate(a, c, workload, containerName, c.Stateful.ServerSpec, refs)
	if err != nil {
		return nil, &Refusal{Why: err.Error()}
	}
	spec := appsv1ac.StatefulSetSpec().WithTemplate(template).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(workload))).
		WithServiceName(name + headlessSuffix).
		// Otherwise a pod that cannot start would keep the mended one from taking its place.
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
		WithRevisionHistoryLimit(statefulHistory).
		WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
			WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType).
			WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
	if s := c.Stateful.Update.MinReadySeconds; s != 0 {
		spec.WithMinReadySeconds(s)
	}
	spec.Replicas = c.Stateful.Replicas
	set := appsv1ac.StatefulSet(name, a.Namespace).
		WithLabels(workloadLabels(a.Owner, c, workload, c.Stateful.Image)).
		WithOwnerReferences(ownerReference(a.Owner)).
		WithSpec(spec)
	annotate(set.ObjectMetaApplyConfiguration, appsapi.AnnotationDependsOn, edges)
	annotate(set.ObjectMetaApplyConfiguration, appsapi.AnnotationDependedOn, former(edges, metaOf(live), live != nil && oldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)))
	if err := annotateRefs(set.ObjectMetaApplyConfiguration, refs); err != nil {
		return nil, err
	}
	g, undo := gateOfStatefulSet(spec)
	config, err := gatedConfig(set, set.ObjectMetaApplyConfiguration, template, g, undo)
	if err != nil {
		return nil, err
	}
	if live != nil && !config.ReplacesPods(live) && !slices.Equal(dependsOn(live), edges) {
		live = live.DeepCopy() // as for a Deployment
		live.Annotations[appsapi.AnnotationDependsOn] = strings.Join(edges, ",")
		return renderStatefulSet(a, c, name, live)
	}
	return config, carryStorage(config, spec, c.Stateful, live, a.running[c.Name])
}

// carryStorage sends the claim templates without holding them: they cannot change, so those
// of a set that exists go along as they are. Growing makes the set anew.
func carryStorage(config *Config, spec *appsv1ac.StatefulSetSpecApplyConfiguration, c *appsapi.StatefulComponent, live *appsv1.StatefulSet, running int32) error {
	templates := claimTemplates(c.Storage)
	if live != nil {
		templates = nil
		for i := range live.Spec.VolumeClaimTemplates {
			t, err := convert[corev1ac.PersistentVolumeClaimApplyConfiguration](live.Spec.VolumeClaimTemplates[i])
			if err != nil {
				return err
			}
			templates = append(templates, t)
		}
	}
	config.carry = func() {
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

// fixed refuses a set whose fields that cannot change are not ours.
func fixed(name string, live *appsv1.StatefulSet) error {
	if live == nil {
		return nil
	}
	ours := selector(WorkloadID(KindStatefulSet.Kind, name))
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
	return &Refusal{Why: fmt.Sprintf("its spec.%s is not %s, and cannot change; delete StatefulSet %s with --cascade=orphan, so that it is made anew around its pods",
		field, want, name)}
}

// gateOfStatefulSet holds back the pod template.
func gateOfStatefulSet(spec *appsv1ac.StatefulSetSpecApplyConfiguration) (g gate, undo func()) {
	template := spec.Template
	return gate{
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

// headless gives each pod of a set a name that can be looked up, ready or not: those who
// form a cluster have to find each other first.
func headless(owner Owner, c appsapi.Component, set string) Child {
	id := ID{Kind: KindService, Name: set + headlessSuffix}
	return Child{ID: id, Render: func(runtime.Object) (*Config, error) {
		spec := corev1ac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(selector(WorkloadID(KindStatefulSet.Kind, set))).
			WithPorts(servicePorts(c.Stateful.Ports)...)
		s := corev1ac.Service(id.Name, owner.Namespace).
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReference(owner)).
			WithSpec(spec)
		return newConfig(s, s.ObjectMetaApplyConfiguration)
	}}
}
