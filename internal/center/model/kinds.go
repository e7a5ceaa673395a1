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
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
)

func typedKind(gv schema.GroupVersion, kind, resource string) informers.Kind {
	return informers.Kind{GroupVersionKind: gv.WithKind(kind), Resource: resource, ReadMode: informers.Typed}
}

func typedClusterKind(gv schema.GroupVersion, kind, resource string) informers.Kind {
	k := typedKind(gv, kind, resource)
	k.ClusterScoped = true
	return k
}

// DefaultKinds returns the kinds that are always watched: applications, their objects and dependencies.
func DefaultKinds() []informers.Kind {
	events := typedKind(corev1.SchemeGroupVersion, "Event", "events")
	events.FieldSelector = "type=Warning" // Normal events explain no problem
	var applications []informers.Kind
	for _, k := range appkind.Builtin {
		applications = append(applications, typedKind(k.GroupVersion(), k.Kind, k.Aliases[0]))
	}
	return append(applications,
		typedKind(appsv1.SchemeGroupVersion, "Deployment", "deployments"),
		typedKind(appsv1.SchemeGroupVersion, "StatefulSet", "statefulsets"),
		typedKind(appsv1.SchemeGroupVersion, "DaemonSet", "daemonsets"),
		typedKind(appsv1.SchemeGroupVersion, "ReplicaSet", "replicasets"),
		typedKind(batchv1.SchemeGroupVersion, "Job", "jobs"),
		typedKind(batchv1.SchemeGroupVersion, "CronJob", "cronjobs"),
		typedKind(corev1.SchemeGroupVersion, "Pod", "pods"),
		typedKind(corev1.SchemeGroupVersion, "Service", "services"),
		typedKind(corev1.SchemeGroupVersion, "PersistentVolumeClaim", "persistentvolumeclaims"),
		typedKind(discoveryv1.SchemeGroupVersion, "EndpointSlice", "endpointslices"),
		typedKind(networkingv1.SchemeGroupVersion, "Ingress", "ingresses"),
		typedKind(autoscalingv2.SchemeGroupVersion, "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
		typedKind(policyv1.SchemeGroupVersion, "PodDisruptionBudget", "poddisruptionbudgets"),
		events,
		typedClusterKind(corev1.SchemeGroupVersion, "Node", "nodes"),
		typedClusterKind(corev1.SchemeGroupVersion, "PersistentVolume", "persistentvolumes"),
		typedClusterKind(storagev1.SchemeGroupVersion, "StorageClass", "storageclasses"),
		typedClusterKind(networkingv1.SchemeGroupVersion, "IngressClass", "ingressclasses"),
	)
}

// ConfigMapKind returns the kind ConfigMap. It is watched only in namespaces with applications, and only its
// metadata, because a cluster can have very many.
func ConfigMapKind() informers.Kind {
	return informers.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", ReadMode: informers.MetadataOnly}
}

// IsThirdParty reports whether a kind is not defined by Holdfast.
func IsThirdParty(k informers.Kind) bool { return k.Group != appsapi.GroupVersion.Group }

// Kinds with special handling.
var (
	kindNode         = schema.GroupKind{Kind: "Node"}
	kindClaim        = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	kindVolume       = schema.GroupKind{Kind: "PersistentVolume"}
	kindConfigMap    = schema.GroupKind{Kind: "ConfigMap"}
	kindService      = schema.GroupKind{Kind: "Service"}
	kindStorageClass = schema.GroupKind{Group: storagev1.GroupName, Kind: "StorageClass"}
	kindIngressClass = schema.GroupKind{Group: networkingv1.GroupName, Kind: "IngressClass"}
)
