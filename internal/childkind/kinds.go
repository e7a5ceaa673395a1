package childkind

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Kind is a kind of child.
type Kind struct {
	Object  client.Object
	NewList func() client.ObjectList
	GVK     schema.GroupVersionKind
}

// Kinds that other packages reference.
var (
	StatefulSet = Kind{&appsv1.StatefulSet{}, func() client.ObjectList { return &appsv1.StatefulSetList{} }, desired.KindStatefulSet}
	Revision    = Kind{&appsv1.ControllerRevision{}, func() client.ObjectList { return &appsv1.ControllerRevisionList{} }, desired.KindRevision}
)

var (
	// Required are the kinds that every cluster serves.
	Required = []Kind{
		{&appsv1.Deployment{}, func() client.ObjectList { return &appsv1.DeploymentList{} }, desired.KindDeployment},
		StatefulSet,
		{&corev1.Service{}, func() client.ObjectList { return &corev1.ServiceList{} }, desired.KindService},
		{&batchv1.Job{}, func() client.ObjectList { return &batchv1.JobList{} }, desired.KindJob},
		{&batchv1.CronJob{}, func() client.ObjectList { return &batchv1.CronJobList{} }, desired.KindCronJob},
		{&corev1.ConfigMap{}, func() client.ObjectList { return &corev1.ConfigMapList{} }, desired.KindConfigMap},
		{&autoscalingv2.HorizontalPodAutoscaler{}, func() client.ObjectList { return &autoscalingv2.HorizontalPodAutoscalerList{} }, desired.KindAutoscaler},
		{&policyv1.PodDisruptionBudget{}, func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }, desired.KindBudget},
		{&networkingv1.Ingress{}, func() client.ObjectList { return &networkingv1.IngressList{} }, desired.KindIngress},
		Revision,
	}
	// Optional are kinds that are not part of Kubernetes.
	Optional = []Kind{
		{unstructuredObject(desired.KindRoute), func() client.ObjectList { return unstructuredList(desired.KindRoute) }, desired.KindRoute},
	}
)

func unstructuredObject(kind schema.GroupVersionKind) client.Object {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

func unstructuredList(kind schema.GroupVersionKind) client.ObjectList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return l
}

// ConfigRefs are the kinds that pods read configuration from.
var ConfigRefs = []string{desired.RefConfigMap, desired.RefSecret}

// NewConfigRefMetadata returns an empty ConfigMap or Secret with metadata only.
func NewConfigRefMetadata(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}
