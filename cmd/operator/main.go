// Command operator runs the Holdfast controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/controller/appservice"
	"github.com/holdfast-dev/holdfast/internal/controller/appstack"
	"github.com/holdfast-dev/holdfast/internal/controller/cloudmanager"
)

// version is set by the linker.
var version = "dev"

// options are the flags of the operator.
type options struct {
	healthAddress           string
	metricsAddress          string
	pprofAddress            string
	leaderElection          bool
	leaderElectionNamespace string
	namespaces              stringList
	workers                 int
	maxBackoff              time.Duration
	verbose                 bool
}

// stringList is a flag with several values, separated by commas.
type stringList []string

func (l *stringList) String() string { return strings.Join(*l, ",") }

// Set takes the value of the flag.
func (l *stringList) Set(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return errors.New("an empty name in the list")
		}
		*l = append(*l, item)
	}
	return nil
}

const (
	// leaseDuration is how long no replica is active after the leader died, or after an outage in
	// which it lost the Lease. It counts from the first time a standby sees the Lease.
	leaseDuration = 10 * time.Second
	// renewDeadline leaves 3 s to shut down.
	renewDeadline = 7 * time.Second
	// retryPeriod is how often a standby tries to acquire the Lease, plus up to 120 % jitter. With
	// the default of 2 s it may notice a released Lease only after 4.4 s.
	retryPeriod = time.Second
)

// namespaceFile contains the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// operatorNamespace returns the operator's namespace; "" if it is unknown.
func (o options) operatorNamespace() string {
	if o.leaderElectionNamespace != "" {
		return o.leaderElectionNamespace
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // outside of a cluster
	}
	return strings.TrimSpace(string(content))
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parseFlags(args)
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

func parseFlags(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	config.RegisterFlags(fs) // --kubeconfig
	fs.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	fs.StringVar(&o.metricsAddress, "metrics-address", ":8443",
		"address of /metrics (HTTPS, requires authentication and authorization); 0 disables it")
	fs.StringVar(&o.pprofAddress, "pprof-address", "",
		"address of /debug/pprof (unauthenticated; bind to 127.0.0.1 only); empty disables it")
	fs.BoolVar(&o.leaderElection, "leader-elect", true, "enable leader election, so that only one replica is active")
	fs.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "",
		"namespace of the Lease and of the Secret with the HMAC key (default: the namespace of the pod)")
	fs.Var(&o.namespaces, "namespaces", "namespaces to watch, separated by commas (default: all)")
	fs.IntVar(&o.workers, "workers", 32, "number of concurrent reconciles per kind")
	fs.DurationVar(&o.maxBackoff, "max-backoff", 5*time.Minute, "maximum delay between retries of writes that the API server rejects")
	fs.BoolVar(&o.verbose, "v", false, "also log decisions and their reasons")
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil && (o.workers < 1 || o.maxBackoff <= 0) {
		err = errors.New("--workers and --max-backoff must be positive")
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
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), appsapi.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	var kinds []engine.Object
	for _, k := range appkind.Builtin {
		kinds = append(kinds, k.New())
	}
	mgr, err := engine.NewManager(cfg, engine.ManagerOptions{Kinds: kinds, Namespaces: o.namespaces, Manager: ctrl.Options{
		Scheme:                  scheme,
		HealthProbeBindAddress:  o.healthAddress,
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization},
		PprofBindAddress:        o.pprofAddress,
		LeaderElection:          o.leaderElection,
		LeaderElectionID:        "holdfast-operator",
		LeaderElectionNamespace: o.leaderElectionNamespace,
		// Safe because main returns right after the manager: a new leader does not have to wait
		// until the Lease expires.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
	}})
	if err != nil {
		return nil, err
	}
	engineOptions := engine.Options{Workers: o.workers, MaxBackoff: o.maxBackoff, Namespace: o.operatorNamespace()}
	if err := errors.Join(appservice.Setup(mgr, engineOptions), appstack.Setup(mgr, engineOptions), cloudmanager.Setup(mgr, engineOptions)); err != nil {
		return nil, err
	}
	return mgr, mgr.AddHealthzCheck("ping", healthz.Ping)
}

// setLogger sends all logs, including those of client-go, to one JSON handler.
func setLogger(verbose bool) {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelInfo - 1 // V(1) of logr
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
}
