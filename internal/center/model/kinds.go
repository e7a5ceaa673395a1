package model

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center/registry"
)

func typed(gv schema.GroupVersion, kind, resource string) registry.Kind {
	return registry.Kind{GroupVersionKind: gv.WithKind(kind), Resource: resource, Form: registry.Typed}
}

func global(gv schema.GroupVersion, kind, resource string) registry.Kind {
	k := typed(gv, kind, resource)
	k.Global = true
	return k
}

// Kinds that are always followed: what applications are made of, and what these depend on.
func Kinds() []registry.Kind {
	events := typed(corev1.SchemeGroupVersion, "Event", "events")
	events.Fields = "type=Warning" // what goes well needs no words
	return []registry.Kind{
		typed(appsapi.GroupVersion, "AppStack", "appstacks"),
		typed(appsapi.GroupVersion, "AppService", "appservices"),
		typed(appsapi.GroupVersion, "CloudManager", "cloudmanagers"),
		typed(appsv1.SchemeGroupVersion, "Deployment", "deployments"),
		typed(appsv1.SchemeGroupVersion, "StatefulSet", "statefulsets"),
		typed(appsv1.SchemeGroupVersion, "DaemonSet", "daemonsets"),
		typed(appsv1.SchemeGroupVersion, "ReplicaSet", "replicasets"),
		typed(batchv1.SchemeGroupVersion, "Job", "jobs"),
		typed(batchv1.SchemeGroupVersion, "CronJob", "cronjobs"),
		typed(corev1.SchemeGroupVersion, "Pod", "pods"),
		typed(corev1.SchemeGroupVersion, "Service", "services"),
		typed(corev1.SchemeGroupVersion, "PersistentVolumeClaim", "persistentvolumeclaims"),
		typed(discoveryv1.SchemeGroupVersion, "EndpointSlice", "endpointslices"),
		typed(networkingv1.SchemeGroupVersion, "Ingress", "ingresses"),
		typed(autoscalingv2.SchemeGroupVersion, "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
		typed(policyv1.SchemeGroupVersion, "PodDisruptionBudget", "poddisruptionbudgets"),
		events,
		global(corev1.SchemeGroupVersion, "Node", "nodes"),
		global(corev1.SchemeGroupVersion, "PersistentVolume", "persistentvolumes"),
		global(storagev1.SchemeGroupVersion, "StorageClass", "storageclasses"),
		global(networkingv1.SchemeGroupVersion, "IngressClass", "ingressclasses"),
	}
}

// ConfigMaps are followed where there are applications, and without what is in them: a cluster
// may have very many.
func ConfigMaps() registry.Kind {
	return registry.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Form: registry.Named}
}

// Custom says whether a kind that is defined in the cluster is worth following: ours are anyway.
func Custom(k registry.Kind) bool { return k.Group != appsapi.GroupVersion.Group }

// kinds by their names.
var (
	kindNode   = schema.GroupKind{Kind: "Node"}
	kindClaim  = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	kindVolume = schema.GroupKind{Kind: "PersistentVolume"}
	kindMap    = schema.GroupKind{Kind: "ConfigMap"}
	kindSvc    = schema.GroupKind{Kind: "Service"}
	kindClass  = schema.GroupKind{Group: storagev1.GroupName, Kind: "StorageClass"}
	kindIngCl  = schema.GroupKind{Group: networkingv1.GroupName, Kind: "IngressClass"}
)
