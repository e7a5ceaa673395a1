package engine

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-dev/holdfast/internal/reconcile"
)

// Permissions that every kind needs; those of component types are in the packages of engine/rbac.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options are options of a controller. The zero value is suitable for production.
type Options struct {
	// Workers is the number of concurrent reconciles; 0 means 32. Workers mostly wait for the API
	// server, and sometimes for unresponsive webhooks.
	Workers int
	// MaxBackoff is the maximum delay between retries of a write that the API server rejects; 0
	// means 5 minutes.
	MaxBackoff time.Duration
	// Namespace is the namespace of the operator; "" means holdfast-system.
	Namespace string
}

func (o Options) withDefaults() reconcile.Options {
	out := reconcile.Options{Workers: o.Workers, MaxBackoff: o.MaxBackoff, Namespace: o.Namespace}
	if out.Workers == 0 {
		out.Workers = 32
	}
	if out.MaxBackoff == 0 {
		out.MaxBackoff = 5 * time.Minute
	}
	if out.Namespace == "" {
		out.Namespace = "holdfast-system"
	}
	return out
}

// Setup adds a controller for a kind to a manager. Create the manager with [NewManager].
func Setup[T Object](mgr ctrl.Manager, kind Kind[T], o Options) error {
	gvk, err := apiutil.GVKForObject(kind.New(), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up a kind: %w", err)
	}
	return reconcile.Setup(mgr, kind.untyped(gvk), o.withDefaults())
}
