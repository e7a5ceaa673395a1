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
	// leaseDuration is how long nobody acts after a leader died, or after an outage that
	// cost it the Lease: whoever comes next waits that long from its first look on.
	leaseDuration = 10 * time.Second
	// renewDeadline leaves 3 s to end in.
	renewDeadline = 7 * time.Second
	// retryPeriod is how often a standby asks for the Lease, and up to 1.2 times later: with
	// the usual 2 s it may notice a released one only after 4.4 s.
	retryPeriod = time.Second
)

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// operatorNamespace is where the operator keeps what is its own; "" when nobody says.
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
	fs.StringVar(&o.metricsAddress, "metrics-address", ":8443", "address of /metrics (HTTPS, callers are authenticated and authorized); 0 switches it off")
	fs.StringVar(&o.pprofAddress, "pprof-address", "", "address of /debug/pprof (nobody is asked who they are: keep it on 127.0.0.1); empty switches it off")
	fs.BoolVar(&o.leaderElection, "leader-elect", true, "let only one of several replicas act")
	fs.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the Lease and of the key that Secrets are hashed with (default: the namespace of the pod)")
	fs.Var(&o.namespaces, "namespaces", "namespaces to look after, separated by commas (default: all)")
	fs.IntVar(&o.workers, "workers", 32, "how many objects of a kind are worked on at once")
	fs.DurationVar(&o.maxBackoff, "max-backoff", 5*time.Minute, "the longest time between two tries of what the API server refuses")
	fs.BoolVar(&o.verbose, "v", false, "also log how decisions were made")
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
	kinds := []engine.Object{&appsapi.AppService{}, &appsapi.AppStack{}, &appsapi.CloudManager{}}
	mgr, err := engine.NewManager(cfg, engine.ManagerOptions{Kinds: kinds, Namespaces: o.namespaces, Manager: ctrl.Options{
		Scheme:                  scheme,
		HealthProbeBindAddress:  o.healthAddress,
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization},
		PprofBindAddress:        o.pprofAddress,
		LeaderElection:          o.leaderElection,
		LeaderElectionID:        "holdfast-operator",
		LeaderElectionNamespace: o.leaderElectionNamespace,
		// Safe because main returns as soon as the manager does: a new leader need
		// not wait for the old Lease to run out.
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
