package engine

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/transport"
)

// ManagerOptions configure a manager. Kinds and Manager.Scheme are required.
type ManagerOptions struct {
	// Kinds has one empty object of each kind that the manager runs.
	Kinds []Object
	// Namespaces are the namespaces that are watched; none means all.
	Namespaces []string
	// Manager has everything else: scheme, leader election, metrics. MapperProvider and NewCache
	// are set by NewManager.
	Manager ctrl.Options
}

// NewManager returns a manager as [Setup] needs it. It starts without an API server and waits for
// one, it caches only what the engine reads, and its readiness check passes once the caches are in
// sync, also on a standby replica.
func NewManager(cfg *rest.Config, o ManagerOptions) (ctrl.Manager, error) {
	var kinds []client.Object
	for _, k := range o.Kinds {
		kinds = append(kinds, k)
	}
	mapper, err := managercache.NewRESTMapper(o.Manager.Scheme, kinds...)
	if err != nil {
		return nil, err
	}
	options := o.Manager
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
	options.NewCache = managercache.New(o.Namespaces...)
	mgr, err := ctrl.NewManager(transport.RetryInformers(cfg), options)
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	ready, err := managercache.NewReadyzCheck(mgr, kinds...)
	if err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", ready)
}
