// The program sample is contender C2: the pattern of Kubernetes' sample-controller, as it is
// taught in its repository and in books, written anew by us for our kind. Typed informers of a
// shared factory fill listers, a rate-limited queue holds keys, and one pass looks for the
// children in the listers, creates what is missing, compares the fields that the spec has,
// writes the status whether or not it has changed, and says Synced in an event.
//
// It differs from what is taught in the peer's favour: retries wait for their own backoff
// alone, not for a bucket of tokens that all share.
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
	resync := flag.Duration("resync", 30*time.Second, "how often everything is looked at again; the pattern is taught with half a minute")
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
