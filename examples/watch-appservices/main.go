// Command watch-appservices prints a line whenever an AppService becomes ready or stops
// being it, and why. It has the shape of every controller:
//
//	API server ──watch──► informer ──► cache (indexed)
//	                         │            ▲ read
//	                       keys ──► queue ──► workers ──► one line
//
// Run it with `go run ./examples/watch-appservices -label=team`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	var o options
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "file to use instead of $KUBECONFIG, ~/.kube/config or the pod's own account")
	flag.StringVar(&o.namespace, "namespace", "", "namespace to watch; all if empty")
	flag.StringVar(&o.label, "label", "team", "label by which AppServices are counted")
	flag.IntVar(&o.workers, "workers", 2, "lines worked on at the same time")
	flag.Parse()

	// The first signal ends the context and with it everything below, in order; after it
	// the default is back, so that a second one ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = run(ctx, cfg, os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch-appservices:", err)
		os.Exit(1)
	}
}
