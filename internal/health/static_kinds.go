package health

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// staticKinds are configuration kinds: they are healthy if they exist, so their metadata is sufficient.
var staticKinds = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Secret"}:         true,
	{Kind: "ServiceAccount"}: true,
	{Kind: "LimitRange"}:     true,
	{Kind: "ResourceQuota"}:  true,

	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:          true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:      true,
	{Group: "networking.k8s.io", Kind: "Ingress"}:           true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:      true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:     true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:     true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:         true,

	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:               true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:        true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: true,

	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: true,
}

// staticKindHealth evaluates an object of a static kind, whatever its Go type.
func staticKindHealth(obj runtime.Object) (Result, bool) {
	o, ok := obj.(metav1.Object)
	if !ok || !staticKinds[obj.GetObjectKind().GroupVersionKind().GroupKind()] {
		return Result{}, false
	}
	return staticHealth(o, obj), true
}
