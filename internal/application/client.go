package application

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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Clients makes clients that read and write the kinds that an application is made of. They know
// these already: asking the API server which kinds there are would take longer than most answers.
type Clients struct {
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// NewClients learns the kinds, which takes longer than making a client.
func NewClients() *Clients {
	scheme := Scheme()
	return &Clients{scheme: scheme, mapper: newRESTMapper(scheme)}
}

// NewClient makes a client. A nil http.Client means a new one.
func (c *Clients) NewClient(config *rest.Config, httpClient *http.Client) (client.WithWatch, error) {
	return client.NewWithWatch(config, client.Options{Scheme: c.scheme, Mapper: c.mapper, HTTPClient: httpClient})
}

// Scheme knows the kinds that an application is made of.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // cannot fail
		}
	}
	return scheme
}

// Kinds that are known without asking.
var (
	knownGroupVersions = []schema.GroupVersion{
		appsapi.GroupVersion, corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion,
		autoscalingv2.SchemeGroupVersion, policyv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion,
		discoveryv1.SchemeGroupVersion, storagev1.SchemeGroupVersion,
	}
	clusterScopedKinds = map[string]bool{"Node": true, "Namespace": true, "PersistentVolume": true, "StorageClass": true, "IngressClass": true, "VolumeAttachment": true}
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
