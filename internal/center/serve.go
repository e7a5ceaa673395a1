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

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/publish"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

// Center is a core with its HTTP API, streams and access checks.
type Center struct {
	*Core
	Hub      *sse.Hub
	Reviewer *authz.Reviewer
	handler  http.Handler
	ready    atomic.Bool
}

// NewCenter returns a center. It does nothing until Run is called.
func NewCenter(o Options, authzOptions authz.Options, hubOptions sse.Options, version string) (*Center, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	var publisher *publish.Publisher
	o.OnChange = func(before, after *model.Record) { publisher.PublishChange(before, after) }
	core, err := New(o)
	if err != nil {
		return nil, err
	}
	reviewer, err := authz.New(o.Config, authzOptions)
	if err != nil {
		return nil, fmt.Errorf("create the access reviewer: %w", err)
	}
	resolver := scopeResolver{core.kinds}
	publisher = publish.New(core.Model, resolver)
	c := &Center{Core: core, Reviewer: reviewer, Hub: sse.New(publisher, clock.RealClock{}, hubOptions)}
	publisher.SetHub(c.Hub)
	server := &httpapi.Server{
		Model: core.Model, Store: core.Store, Registry: core.Registry, Activity: core.Activity, Hub: c.Hub, Resolver: resolver, Reviewer: reviewer, Callers: actions.NewCallerFactory(o.Clock),
		Version: version, Started: o.Clock.Now(),
	}
	metrics, err := requireAuthorization(o.Config, server.Metrics())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", httpapi.WithSecurityHeaders(metrics))
	mux.Handle("/", server.Handler())
	c.handler = mux
	return c, nil
}

// requireAuthorization rejects callers that the API server does not allow to get the non-resource URL.
func requireAuthorization(config *rest.Config, next http.Handler) (http.Handler, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // requests with invalid tokens must not throttle other callers
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("protect /metrics: %w", err)
	}
	return filter(logr.Discard(), next)
}

// Handler serves the HTTP API, the page and the metrics.
func (c *Center) Handler() http.Handler { return c.handler }

// Run runs the core and the hub until the context ends.
func (c *Center) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.Core.Run(ctx) })
	wg.Go(func() { c.Hub.Run(ctx) })
	wg.Wait()
}

// Ready reports whether all informers have synced once. Before that, applications would seem to be
// missing. It stays true: a kind or namespace that is added later must not make the replica unready.
func (c *Center) Ready() bool {
	if !c.ready.Load() && len(c.Registry.Informers()) > 0 && c.Registry.Synced() {
		c.ready.Store(true)
	}
	return c.ready.Load()
}
