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
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/transport"
)

// New makes the cache of a manager as the engine needs it: of children and pods it keeps
// only ours, of pods only what explains them, of ConfigMaps and Secrets of others only that
// they exist. No namespaces means all.
func New(namespaces ...string) ctrlcache.NewCacheFunc {
	return func(config *rest.Config, defaults ctrlcache.Options) (ctrlcache.Cache, error) {
		newCache := func(o ctrlcache.Options) (ctrlcache.Cache, error) {
			o.Scheme, o.Mapper, o.HTTPClient = defaults.Scheme, defaults.Mapper, defaults.HTTPClient
			o.DefaultTransform = ctrlcache.TransformStripManagedFields()
			// A read must not begin a watch: it would wait for ever for a kind that has gone.
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
		primary, err := newCache(mainCacheOptions())
		if err != nil {
			return nil, err
		}
		configMaps, err := newCache(ctrlcache.Options{ByObject: map[client.Object]ctrlcache.ByObject{&corev1.ConfigMap{}: managedOnly}})
		return newCompositeCache(primary, configMaps, defaults.Scheme), err
	}
}

// managedOnly is what we made. Nobody changes what comes from the cache, so it need not be copied.
var managedOnly = ctrlcache.ByObject{
	Label:                 labels.SelectorFromSet(labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy}),
	UnsafeDisableDeepCopy: new(true),
}

func mainCacheOptions() ctrlcache.Options {
	pods, revisions := managedOnly, managedOnly
	pods.Transform, revisions.Transform = projectPod, projectRevision
	o := ctrlcache.Options{ByObject: map[client.Object]ctrlcache.ByObject{}}
	for _, c := range slices.Concat(ChildKinds, OptionalChildKinds) {
		if c.GVK == desired.KindConfigMap {
			continue // see Composite
		}
		o.ByObject[c.Object] = managedOnly
	}
	o.ByObject[PodObject], o.ByObject[RevisionKind.Object], o.ByObject[ClaimObject] = pods, revisions, managedOnly
	for _, kind := range ConfigRefKinds {
		o.ByObject[PartialMetadata(kind)] = ctrlcache.ByObject{UnsafeDisableDeepCopy: new(true), Transform: projectConfigRef}
	}
	return o
}

func projectPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return explain.ProjectPod(pod), nil
	}
	return obj, nil
}

// projectRevision drops the spec that a revision remembers: only people read it.
func projectRevision(obj any) (any, error) {
	if r, ok := obj.(*appsv1.ControllerRevision); ok {
		r.Data.Raw = nil
		r.ManagedFields = nil
	}
	return obj, nil
}

// projectConfigRef keeps name, UID and resourceVersion, and of ours, and of what is handed over,
// whose it is.
func projectConfigRef(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		trimmed := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
		if m.Labels[appsapi.LabelManagedBy] == appsapi.ManagedBy || m.Annotations[appsapi.AnnotationAdopt] != "" {
			trimmed.Labels, trimmed.Annotations, trimmed.DeletionTimestamp = m.Labels, m.Annotations, m.DeletionTimestamp
		}
		m.ObjectMeta = trimmed
	}
	return obj, nil
}
