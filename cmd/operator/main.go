// Command operator runs the Holdfast controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// version is set by the linker.
var version = "dev"

// options are the flags of the operator.
type options struct {
	healthAddress           string
	metricsAddress          string
	leaderElection          bool
	leaderElectionNamespace string
	verbose                 bool
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	setLogger(o.verbose)
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	ctrl.Log.Info("Starting operator", "version", version)
	return mgr.Start(ctx)
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	config.RegisterFlags(fs) // --kubeconfig
	fs.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	fs.StringVar(&o.metricsAddress, "metrics-address", ":8443", "address of /metrics (HTTPS, callers are authenticated and authorized); 0 switches it off")
	fs.BoolVar(&o.leaderElection, "leader-elect", true, "let only one of several replicas act")
	fs.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the Lease (default: the namespace of the pod)")
	fs.BoolVar(&o.verbose, "v", false, "also log how decisions were made")
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, err
}

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,verbs=create;get;update
// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func newManager(o options) (ctrl.Manager, error) {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster (set --kubeconfig or KUBECONFIG): %w", err)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		HealthProbeBindAddress:  o.healthAddress,
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization},
		LeaderElection:          o.leaderElection,
		LeaderElectionID:        "holdfast-operator",
		LeaderElectionNamespace: o.leaderElectionNamespace,
		// Safe because main returns as soon as the manager does: a new leader need
		// not wait for the old Lease to run out.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())); err != nil {
		return nil, err
	}
	return mgr, nil
}

// cachesSynced is not ready before the caches are: until then the operator would
// answer from a view of the world that is not complete.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches are not in sync with the API server yet")
		}
		return nil
	}
}

// setLogger sends everything, client-go's own words included, through one JSON
// handler.
func setLogger(verbose bool) {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelInfo - 1 // V(1) of logr
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
}
