package informers

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// ReadMode is the representation in which objects of a kind are read.
type ReadMode int

const (
	// Unstructured is for kinds without Go types.
	Unstructured ReadMode = iota
	// Typed is for kinds with Go types, which use less memory and are required to evaluate health and causes.
	Typed
	// MetadataOnly reads only the metadata.
	MetadataOnly
)

// Kind describes a kind for an informer.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural name in API paths.
	Resource string
	// ClusterScoped kinds have no namespace.
	ClusterScoped bool
	ReadMode      ReadMode
	// FieldSelector selects the objects. Empty means all objects.
	FieldSelector string
	// sink overrides the sink of the registry.
	sink Sink
}

func (k Kind) gvr() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// newScheme returns a scheme with all kinds that are read typed.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, appsapi.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // cannot fail
		}
	}
	return s
}

// listerWatcher returns a ListerWatcher for a kind.
func (k Kind) listerWatcher(r *Registry, namespace string) (cache.ListerWatcherWithContext, error) {
	config := rest.CopyConfig(r.Config)
	switch k.ReadMode {
	case Typed:
		return k.typedListerWatcher(r, config, namespace)
	case MetadataOnly:
		c, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), r.http)
		if err != nil {
			return nil, fmt.Errorf("create client for %s: %w", k.Resource, err)
		}
		return listWatchWith(k, c.Resource(k.gvr()).Namespace(namespace)), nil
	default:
		c, err := dynamic.NewForConfigAndClient(config, r.http)
		if err != nil {
			return nil, fmt.Errorf("create client for %s: %w", k.Resource, err)
		}
		return listWatchWith(k, c.Resource(k.gvr()).Namespace(namespace)), nil
	}
}

// resourceClient is the common interface of dynamic and metadata clients.
type resourceClient[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func listWatchWith[L runtime.Object](k Kind, c resourceClient[L]) cache.ListerWatcherWithContext {
	return k.listWatch(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) }, c.Watch)
}

// typedListerWatcher reads built-in kinds as Protobuf and Holdfast's own kinds as JSON.
func (k Kind) typedListerWatcher(r *Registry, config *rest.Config, namespace string) (cache.ListerWatcherWithContext, error) {
	gv := k.GroupVersion()
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(r.scheme).WithoutConversion()
	if gv.Group != appsapi.GroupVersion.Group {
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	c, err := rest.RESTClientForConfigAndClient(config, r.http)
	if err != nil {
		return nil, fmt.Errorf("create client for %s: %w", k.Resource, err)
	}
	selector := fields.Everything()
	if k.FieldSelector != "" {
		if selector, err = fields.ParseSelector(k.FieldSelector); err != nil {
			return nil, fmt.Errorf("parse field selector for %s: %w", k.Resource, err)
		}
	}
	return cache.NewListWatchFromClient(c, k.Resource, namespace, selector), nil
}

func (k Kind) listWatch(list cache.ListWithContextFunc, watch cache.WatchFuncWithContext) cache.ListerWatcherWithContext {
	return &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watch}
}
