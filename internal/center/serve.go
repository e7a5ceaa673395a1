package center

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/act"
	"github.com/holdfast-dev/holdfast/internal/center/feed"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/web"
)

// Center is a core with everything that people reach it by.
type Center struct {
	*Core
	Hub      *hub.Hub
	Reviewer *access.Reviewer
	handler  http.Handler
	ready    atomic.Bool
}

// NewCenter puts a center together. It does nothing before Run.
func NewCenter(o Options, a access.Options, h hub.Options, version string) (*Center, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	var f *feed.Feed
	o.Published = func(before, after *model.Record) { f.Published(before, after) }
	core, err := New(o)
	if err != nil {
		return nil, err
	}
	reviewer, err := access.New(o.Config, a)
	if err != nil {
		return nil, fmt.Errorf("check callers: %w", err)
	}
	r := rights{core.resources}
	f = feed.New(core.Model, r)
	c := &Center{Core: core, Reviewer: reviewer, Hub: hub.New(f, clock.RealClock{}, h)}
	f.Into(c.Hub)
	server := &web.Server{
		Model: core.Model, Store: core.Store, Registry: core.Registry, Diary: core.Diary, Hub: c.Hub, Rights: r, Reviewer: reviewer, Callers: act.NewCallers(o.Clock),
		Version: version, Started: o.Clock.Now(),
	}
	metrics, err := guarded(o.Config, server.Metrics())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", web.Secured(metrics))
	mux.Handle("/", server.Handler())
	c.handler = mux
	return c, nil
}

// guarded lets those through who may get the address, as the API server says.
func guarded(config *rest.Config, next http.Handler) (http.Handler, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // nobody has to wait because others come with tokens that are none
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, over)
	if err != nil {
		return nil, fmt.Errorf("check who reads metrics: %w", err)
	}
	return filter(logr.Discard(), next)
}

// Handler is the HTTP API, the page and the metrics.
func (c *Center) Handler() http.Handler { return c.handler }

// Run runs everything until the context ends.
func (c *Center) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { c.Core.Run(ctx) })
	all.Go(func() { c.Hub.Run(ctx) })
	all.Wait()
}

// Ready says that everything was read once: before, applications would seem to be missing. It stays
// so: a kind or a namespace that comes later is no reason to send everybody else away.
func (c *Center) Ready() bool {
	if !c.ready.Load() && len(c.Registry.Informers()) > 0 && c.Registry.Synced() {
		c.ready.Store(true)
	}
	return c.ready.Load()
}
