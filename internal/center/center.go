// Package center is the application center. It watches the applications of a cluster and the objects
// that belong to them, and serves their live state to a web page and to API clients.
//
//	API server ──► registry ──► store ──► model ──► hub ──► clients
//	               informers    objects   views     streams
//
// Safety rule: the center never writes with its own permissions and never reads a Secret. Each user
// sees only the objects that the user is allowed to list.
package center

import (
	"context"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Options configures a center.
type Options struct {
	// Config connects to the API server as the center's own ServiceAccount, which can only list and watch.
	Config *rest.Config
	// Namespaces are the namespaces to watch. Empty means all namespaces.
	Namespaces []string
	Clock      clock.Clock
	// OnChange is called for every application whose record has changed.
	OnChange func(before, after *model.Record)
}

// Core holds the state of the center, without the HTTP API.
type Core struct {
	Registry *informers.Registry
	Store    *store.Store
	Model    *model.Model
	Activity *activity.Log

	namespaces []string
	kinds      *kindIndex
}

// New returns a core. It does nothing until Run is called.
func New(o Options) (*Core, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Core{Activity: activity.New(o.Clock, activity.DefaultLimits), namespaces: o.Namespaces, kinds: newKindIndex()}
	if len(c.namespaces) == 0 {
		c.namespaces = []string{""}
	}
	c.Model = model.New(model.Options{Clock: o.Clock, Activity: c.Activity, OnChange: o.OnChange, InformerState: c.informerState, OnNamespaceInUse: c.inUse})
	c.Store = store.New(model.IndexTerms, c.Model.HandleChanges)
	c.Model.Store = c.Store
	var err error
	c.Registry, err = informers.New(informers.Options{
		Config: o.Config, Sink: c.Store, Project: store.NewProjector(isUnrelated).Project, Clock: o.Clock,
		OnStateChange: func(s informers.Status) { c.Model.MarkNamespaceDirty(s.Key.Namespace) },
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range model.DefaultKinds() {
		c.acquire("center", kind)
	}
	c.Registry.FollowCustomKinds(customKinds{c.kinds}, o.Namespaces...)
	return c, nil
}

// customKinds selects the custom resources to watch and registers the kinds that are applications.
type customKinds struct{ index *kindIndex }

func (c customKinds) Defined(crd *apiextensionsv1.CustomResourceDefinition, kind informers.Kind) bool {
	c.index.add(kind)
	if appkind.IsApplicationCRD(crd) {
		if k, err := appkind.FromCRD(crd); err == nil { // kubectl holdfast doctor reports the error
			appkind.Register(k)
		}
	}
	return model.IsThirdParty(kind)
}

func (c customKinds) Removed(kind informers.Kind) { appkind.Unregister(kind.GroupKind()) }

// isUnrelated reports whether an object belongs to no application and has no owner that could.
func isUnrelated(o metav1.Object) bool {
	_, _, _, ok := inspect.Membership(o)
	return !ok && len(o.GetOwnerReferences()) == 0
}

// acquire starts informers for a kind in all watched namespaces.
func (c *Core) acquire(consumer string, kind informers.Kind) {
	if kind.ClusterScoped {
		c.Registry.Acquire(consumer, kind, "")
		return
	}
	for _, ns := range c.namespaces {
		c.Registry.Acquire(consumer, kind, ns)
	}
}

// inUse watches ConfigMaps only in namespaces that have applications.
func (c *Core) inUse(namespace string, inUse bool) {
	kind := model.ConfigMapKind()
	if inUse {
		c.Registry.Acquire("applications", kind, namespace)
	} else {
		c.Registry.Release("applications", kind, namespace)
	}
}

// informerState returns the state of the informer for a kind.
func (c *Core) informerState(kind schema.GroupKind, namespace string) informers.State {
	k, ok := c.kinds.lookup(kind)
	if !ok {
		return ""
	}
	return c.Registry.State(k.GroupVersion().WithResource(k.Resource), namespace)
}

// Run runs the informers and the model until the context ends.
func (c *Core) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Registry.Run(ctx) })
	wg.Go(func() { c.Model.Run(ctx) })
	wg.Wait()
}

// kindIndex contains the watched kinds.
type kindIndex struct {
	mu          sync.RWMutex
	byGroupKind map[schema.GroupKind]informers.Kind
	// wellKnown maps the built-in kinds of Kubernetes and Holdfast to their resources.
	wellKnown map[string]schema.GroupResource
}

func newKindIndex() *kindIndex {
	r := &kindIndex{byGroupKind: map[schema.GroupKind]informers.Kind{}, wellKnown: map[string]schema.GroupResource{}}
	for _, k := range append(model.DefaultKinds(), model.ConfigMapKind()) {
		r.byGroupKind[k.GroupKind()] = k
		r.wellKnown[k.Kind] = schema.GroupResource{Group: k.Group, Resource: k.Resource}
	}
	return r
}

func (r *kindIndex) add(k informers.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byGroupKind[k.GroupKind()] = k
}

func (r *kindIndex) lookup(kind schema.GroupKind) (informers.Kind, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k, ok := r.byGroupKind[kind]
	return k, ok
}

// KindOf returns the kind of a watched resource.
func (c *Core) KindOf(resource schema.GroupVersionResource) (informers.Kind, bool) {
	c.kinds.mu.RLock()
	defer c.kinds.mu.RUnlock()
	for _, k := range c.kinds.byGroupKind {
		if k.Group == resource.Group && k.Resource == resource.Resource {
			return k, true
		}
	}
	return informers.Kind{}, false
}
