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

	"github.com/holdfast-dev/holdfast/internal/center/diary"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/registry"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// Options of a center.
type Options struct {
	// Config reaches the API server with the center's own rights: to list and watch.
	Config *rest.Config
	// Namespaces are those that it follows; none means all.
	Namespaces []string
	Clock      clock.Clock
	// Published is told of every application that is another one than before.
	Published func(before, after *model.Record)
}

// Core knows how everything is.
type Core struct {
	Registry *registry.Registry
	Store    *store.Store
	Model    *model.Model
	Diary    *diary.Diary

	namespaces []string
	resources  *resources
}

// New makes a core. It does nothing before Run.
func New(o Options) (*Core, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Core{Diary: diary.New(o.Clock, diary.DefaultLimits), namespaces: o.Namespaces, resources: newResources()}
	if len(c.namespaces) == 0 {
		c.namespaces = []string{""}
	}
	c.Model = model.New(model.Options{Clock: o.Clock, Diary: c.Diary, Published: o.Published, State: c.state, Inhabited: c.inhabited})
	c.Store = store.New(model.Terms, c.Model.Changed)
	c.Model.Store = c.Store
	var err error
	c.Registry, err = registry.New(registry.Options{
		Config: o.Config, Sink: c.Store, Project: store.NewProjector(isForeign).Project, Clock: o.Clock,
		Changed: func(s registry.Status) { c.Model.TouchIn(s.Key.Namespace) },
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range model.Kinds() {
		c.want("center", kind)
	}
	c.Registry.WantCustom(func(k registry.Kind) bool {
		c.resources.add(k)
		return model.Custom(k)
	}, o.Namespaces...)
	return c, nil
}

// isForeign says that an object names no application, and has no owner that might.
func isForeign(o metav1.Object) bool {
	_, _, _, ok := view.Membership(o)
	return !ok && len(o.GetOwnerReferences()) == 0
}

// want follows a kind where the center looks.
func (c *Core) want(holder string, kind registry.Kind) {
	if kind.Global {
		c.Registry.Want(holder, kind, "")
		return
	}
	for _, ns := range c.namespaces {
		c.Registry.Want(holder, kind, ns)
	}
}

// inhabited follows ConfigMaps where there are applications.
func (c *Core) inhabited(namespace string, inhabited bool) {
	kind := model.ConfigMaps()
	if inhabited {
		c.Registry.Want("applications", kind, namespace)
	} else {
		c.Registry.Release("applications", kind, namespace)
	}
}

// state is how a kind is followed.
func (c *Core) state(kind schema.GroupKind, namespace string) registry.State {
	k, ok := c.resources.of(kind)
	if !ok {
		return ""
	}
	return c.Registry.State(k.GroupVersion().WithResource(k.Resource), namespace)
}

// Run follows everything until the context ends.
func (c *Core) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { c.Registry.Run(ctx) })
	all.Go(func() { c.Model.Run(ctx) })
	all.Wait()
}

// resources knows the kinds that are followed.
type resources struct {
	mu    sync.RWMutex
	kinds map[schema.GroupKind]registry.Kind
	// own are the resources of kinds that are Kubernetes' own, or ours.
	own map[string]schema.GroupResource
}

func newResources() *resources {
	r := &resources{kinds: map[schema.GroupKind]registry.Kind{}, own: map[string]schema.GroupResource{}}
	for _, k := range append(model.Kinds(), model.ConfigMaps()) {
		r.kinds[k.GroupKind()] = k
		r.own[k.Kind] = schema.GroupResource{Group: k.Group, Resource: k.Resource}
	}
	return r
}

func (r *resources) add(k registry.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[k.GroupKind()] = k
}

func (r *resources) of(kind schema.GroupKind) (registry.Kind, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k, ok := r.kinds[kind]
	return k, ok
}

// KindOf is the kind of a resource that is followed.
func (c *Core) KindOf(resource schema.GroupVersionResource) (registry.Kind, bool) {
	c.resources.mu.RLock()
	defer c.resources.mu.RUnlock()
	for _, k := range c.resources.kinds {
		if k.Group == resource.Group && k.Resource == resource.Resource {
			return k, true
		}
	}
	return registry.Kind{}, false
}
