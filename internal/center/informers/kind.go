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

// ReadMode is how objects of a kind are read.
type ReadMode int

const (
	// Unstructured reads kinds that are not known here.
	Unstructured ReadMode = iota
	// Typed reads kinds that are: smaller, and what health and causes are found from.
	Typed
	// MetadataOnly reads only who an object is, not what is in it.
	MetadataOnly
)

// Kind is what an informer can follow.
type Kind struct {
	schema.GroupVersionKind
	// Resource is its plural name in paths.
	Resource string
	// ClusterScoped kinds have no namespace.
	ClusterScoped bool
	ReadMode      ReadMode
	// FieldSelector, if any, select the objects.
	FieldSelector string
	// sink, if there is one, takes the objects instead of that of the registry.
	sink Sink
}

func (k Kind) gvr() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// newScheme knows the kinds that are read typed.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, appsapi.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // cannot fail
		}
	}
	return s
}

// listerWatcher reads the objects of a kind.
func (k Kind) listerWatcher(r *Registry, namespace string) (cache.ListerWatcherWithContext, error) {
	config := rest.CopyConfig(r.Config)
	switch k.ReadMode {
	case Typed:
		return k.typedListerWatcher(r, config, namespace)
	case MetadataOnly:
		c, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), r.http)
		if err != nil {
			return nil, fmt.Errorf("reach %s: %w", k.Resource, err)
		}
		resourceClient := c.Resource(k.gvr()).Namespace(namespace)
		return k.listWatch(
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resourceClient.List(ctx, o)
			},
			func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return resourceClient.Watch(ctx, o)
			}), nil
	default:
		c, err := dynamic.NewForConfigAndClient(config, r.http)
		if err != nil {
			return nil, fmt.Errorf("reach %s: %w", k.Resource, err)
		}
		resourceClient := c.Resource(k.gvr()).Namespace(namespace)
		return k.listWatch(
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resourceClient.List(ctx, o)
			},
			func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return resourceClient.Watch(ctx, o)
			}), nil
	}
}

// typedListerWatcher reads built-in kinds in the binary form, and ours as JSON.
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
		return nil, fmt.Errorf("reach %s: %w", k.Resource, err)
	}
	selector := fields.Everything()
	if k.FieldSelector != "" {
		if selector, err = fields.ParseSelector(k.FieldSelector); err != nil {
			return nil, fmt.Errorf("select %s: %w", k.Resource, err)
		}
	}
	return cache.NewListWatchFromClient(c, k.Resource, namespace, selector), nil
}

func (k Kind) listWatch(list cache.ListWithContextFunc, watch cache.WatchFuncWithContext) cache.ListerWatcherWithContext {
	return &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watch}
}
