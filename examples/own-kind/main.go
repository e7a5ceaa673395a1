// Command own-kind is an operator for your own kind, Guestbook, on the engine of Holdfast: types.go
// defines the kind, guestbook.go maps it to components, and this file runs the operator.
package main

import (
	"context"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
)

// +kubebuilder:rbac:groups=example.com,resources=guestbooks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=example.com,resources=guestbooks/status,verbs=patch
// +kubebuilder:rbac:groups=example.com,resources=guestbooks/finalizers,verbs=update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,verbs=create;get;update
// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=events,verbs=create;patch

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatalln("own-kind:", err)
	}
}

// run reconciles Guestbooks until ctx ends.
func run(ctx context.Context, cfg *rest.Config) error {
	scheme := runtime.NewScheme()
	addToScheme(scheme)
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := engine.NewManager(cfg, engine.ManagerOptions{LabelPrefix: "guestbook.example.com", Kinds: []engine.Object{&Guestbook{}}, Manager: ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "guestbook-operator", LeaderElectionNamespace: "holdfast-system",
	}})
	if err != nil {
		return err
	}
	kind := engine.Kind[*Guestbook]{New: func() *Guestbook { return &Guestbook{} }, Components: components, Types: types,
		Operations: func(g *Guestbook) *appsapi.Operations { return &g.Spec.Operations }}
	if err := engine.Setup(mgr, kind, engine.Options{}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
