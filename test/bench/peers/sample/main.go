// The program sample is contender C2: the pattern of the Kubernetes sample-controller, implemented for the benchmark.
// Typed informers of a shared factory fill listers, a rate-limited queue holds keys, and a reconciliation reads the
// children from the listers, creates missing ones, compares the fields of the spec, writes the status whether or not it
// has changed, and emits a Synced event.
//
// It deviates from the sample in the peer's favor: retries only use their own backoff without a shared token bucket.
package main

import (
	"errors"
	"flag"
	"time"

	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	informers "github.com/holdfast-dev/holdfast/client/informers/externalversions"
	"github.com/holdfast-dev/holdfast/test/bench/peers/setup"
)

func main() {
	resync := flag.Duration("resync", 30*time.Second, "resync interval; 30s is that of the sample-controller")
	o := setup.ParseFlags()
	ctx, stop := setup.SignalContext()
	defer stop()
	kube, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		setup.Fatal(err)
	}
	apps, err := versioned.NewForConfig(o.Config)
	if err != nil {
		setup.Fatal(err)
	}
	kubeFactory := kubeinformers.NewSharedInformerFactory(kube, *resync)
	appsFactory := informers.NewSharedInformerFactory(apps, *resync)
	c, err := newController(ctx, kube, apps,
		kubeFactory.Apps().V1().Deployments(), kubeFactory.Core().V1().Services(), appsFactory.Apps().V1alpha1().AppServices())
	if err != nil {
		setup.Fatal(err)
	}
	kubeFactory.Start(ctx.Done())
	appsFactory.Start(ctx.Done())
	if err := c.run(ctx, o.Workers, setup.AnnounceReady); err != nil && !errors.Is(err, ctx.Err()) {
		setup.Fatal(err)
	}
}
