package managercache

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/transport"
)

// New returns the cache of a manager for the engine. Of children and pods it keeps only managed
// ones, of pods only the fields that explain their state, of other ConfigMaps and Secrets only
// their identity. No namespaces means all.
func New(keys *appsapi.Keys, namespaces ...string) ctrlcache.NewCacheFunc {
	return func(config *rest.Config, defaults ctrlcache.Options) (ctrlcache.Cache, error) {
		newCache := func(o ctrlcache.Options) (ctrlcache.Cache, error) {
			o.Scheme, o.Mapper, o.HTTPClient = defaults.Scheme, defaults.Mapper, defaults.HTTPClient
			o.DefaultTransform = ctrlcache.TransformStripManagedFields()
			// A read must not start a watch: for a kind that is no longer served it would never
			// return.
			o.ReaderFailOnMissingInformer = true
			o.NewInformer = transport.NewInformer
			for _, ns := range namespaces {
				if o.DefaultNamespaces == nil {
					o.DefaultNamespaces = map[string]ctrlcache.Config{}
				}
				o.DefaultNamespaces[ns] = ctrlcache.Config{}
			}
			return ctrlcache.New(config, o)
		}
		primary, err := newCache(mainCacheOptions(keys))
		if err != nil {
			return nil, err
		}
		configMaps, err := newCache(ctrlcache.Options{ByObject: map[client.Object]ctrlcache.ByObject{&corev1.ConfigMap{}: managedOnly}})
		return newCompositeCache(keys, primary, configMaps, defaults.Scheme), err
	}
}

// managedOnly selects managed objects. Cached objects are never changed, so they are not copied.
var managedOnly = ctrlcache.ByObject{
	Label:                 labels.SelectorFromSet(labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy}),
	UnsafeDisableDeepCopy: new(true),
}

func mainCacheOptions(keys *appsapi.Keys) ctrlcache.Options {
	pods, revisions := managedOnly, managedOnly
	pods.Transform, revisions.Transform = projectPod, projectRevision
	o := ctrlcache.Options{ByObject: map[client.Object]ctrlcache.ByObject{}}
	for _, c := range slices.Concat(childkind.Required, childkind.Optional) {
		if c.GVK == desired.KindConfigMap {
			continue // see Composite
		}
		o.ByObject[c.Object] = managedOnly
	}
	o.ByObject[&corev1.Pod{}], o.ByObject[childkind.Revision.Object], o.ByObject[&corev1.PersistentVolumeClaim{}] = pods, revisions, managedOnly
	for _, kind := range childkind.ConfigRefs {
		o.ByObject[childkind.NewConfigRefMetadata(kind)] = ctrlcache.ByObject{UnsafeDisableDeepCopy: new(true), Transform: projectConfigRef(keys)}
	}
	return o
}

func projectPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return explain.ProjectPod(pod), nil
	}
	return obj, nil
}

// projectRevision drops the stored spec, which the engine does not read.
func projectRevision(obj any) (any, error) {
	if r, ok := obj.(*appsv1.ControllerRevision); ok {
		r.Data.Raw = nil
		r.ManagedFields = nil
	}
	return obj, nil
}

// projectConfigRef keeps name, UID and resourceVersion, and owner metadata of managed and adoptable
// objects.
func projectConfigRef(keys *appsapi.Keys) func(any) (any, error) {
	return func(obj any) (any, error) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			trimmed := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
			if m.Labels[appsapi.LabelManagedBy] == appsapi.ManagedBy || m.Annotations[keys.Adopt] != "" {
				trimmed.Labels, trimmed.Annotations, trimmed.DeletionTimestamp = m.Labels, m.Annotations, m.DeletionTimestamp
			}
			m.ObjectMeta = trimmed
		}
		return obj, nil
	}
}
