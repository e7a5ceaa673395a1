// Package kubeclient creates the clients of plugin and center, and lists objects in pages.
//
// Safety rule: it only reads, with the client of the caller, and only metadata of children.
package kubeclient

import (
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Clients creates clients for the kinds that an application consists of. Their REST mapper is
// static, because discovery would take longer than most commands.
type Clients struct {
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// NewClients builds scheme and REST mapper once, which takes longer than creating a client.
func NewClients() *Clients {
	scheme := Scheme()
	return &Clients{scheme: scheme, mapper: kindMapper{newRESTMapper(scheme)}}
}

// NewClient creates a client. If httpClient is nil, it creates one.
func (c *Clients) NewClient(config *rest.Config, httpClient *http.Client) (client.WithWatch, error) {
	return client.NewWithWatch(config, client.Options{Scheme: c.scheme, Mapper: c.mapper, HTTPClient: httpClient})
}

// Scheme contains the kinds that an application consists of.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // cannot fail
		}
	}
	return scheme
}

// Kinds of the static REST mapper.
var (
	knownGroupVersions = []schema.GroupVersion{
		appsapi.GroupVersion, corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion,
		autoscalingv2.SchemeGroupVersion, policyv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion,
		discoveryv1.SchemeGroupVersion, storagev1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion,
	}
	clusterScopedKinds = map[string]bool{"Node": true, "Namespace": true, "PersistentVolume": true, "StorageClass": true, "IngressClass": true, "VolumeAttachment": true, "CustomResourceDefinition": true}
)

func newRESTMapper(scheme *runtime.Scheme) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, gv := range knownGroupVersions {
		for kind := range scheme.KnownTypes(gv) {
			scope := meta.RESTScopeNamespace
			if clusterScopedKinds[kind] {
				scope = meta.RESTScopeRoot
			}
			m.Add(gv.WithKind(kind), scope)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"},
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}
