// Package center is the application center: it follows every application of a cluster and
// everything that belongs to it, and shows people and programs how that is, as it happens.
//
//	API server ──► registry ──► store ──► model ──► hub ──► clients
//	               informers    objects   views     streams
//
// Safety rule: it never writes with rights of its own, and never reads a Secret. What it shows to
// somebody is what that one may read.
package center

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Options of a center.
type Options struct {
	// Config reaches the API server with the center's own rights: to list and watch.
	Config *rest.Config
	// Namespaces are those that it follows; none means all.
	Namespaces []string
	Clock      clock.Clock
	// OnChange is told of every application that is another one than before.
	OnChange func(before, after *model.Record)
}

// Core knows how everything is.
type Core struct {
	Registry *informers.Registry
	Store    *store.Store
	Model    *model.Model
	Activity *activity.Log

	namespaces []string
	kinds      *kindIndex
}

// New makes a core. It does nothing before Run.
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
	c.Registry.FollowCustomKinds(func(k informers.Kind) bool {
		c.kinds.add(k)
		return model.IsThirdParty(k)
	}, o.Namespaces...)
	return c, nil
}

// isUnrelated says that an object names no application, and has no owner that might.
func isUnrelated(o metav1.Object) bool {
	_, _, _, ok := inspect.Membership(o)
	return !ok && len(o.GetOwnerReferences()) == 0
}

// acquire follows a kind where the center looks.
func (c *Core) acquire(consumer string, kind informers.Kind) {
	if kind.ClusterScoped {
		c.Registry.Acquire(consumer, kind, "")
		return
	}
	for _, ns := range c.namespaces {
		c.Registry.Acquire(consumer, kind, ns)
	}
}

// inUse follows ConfigMaps where there are applications.
func (c *Core) inUse(namespace string, inUse bool) {
	kind := model.ConfigMapKind()
	if inUse {
		c.Registry.Acquire("applications", kind, namespace)
	} else {
		c.Registry.Release("applications", kind, namespace)
	}
}

// informerState is how a kind is followed.
func (c *Core) informerState(kind schema.GroupKind, namespace string) informers.State {
	k, ok := c.kinds.lookup(kind)
	if !ok {
		return ""
	}
	return c.Registry.State(k.GroupVersion().WithResource(k.Resource), namespace)
}

// Run follows everything until the context ends.
func (c *Core) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Registry.Run(ctx) })
	wg.Go(func() { c.Model.Run(ctx) })
	wg.Wait()
}

// kindIndex knows the kinds that are followed.
type kindIndex struct {
	mu          sync.RWMutex
	byGroupKind map[schema.GroupKind]informers.Kind
	// wellKnown are the resources of kinds that are Kubernetes' own, or ours.
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

// KindOf is the kind of a resource that is followed.
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
