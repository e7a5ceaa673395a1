// Command watch-appservices prints a line whenever the readiness of an AppService changes, with the
// reason. It has the structure of every controller:
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
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "",
		"path of a kubeconfig; default: $KUBECONFIG, ~/.kube/config or the ServiceAccount of the pod")
	flag.StringVar(&o.namespace, "namespace", "", "namespace to watch; empty means all")
	flag.StringVar(&o.label, "label", "team", "label by which AppServices are counted")
	flag.IntVar(&o.workers, "workers", 2, "number of concurrent workers")
	flag.Parse()

	// The first signal cancels the context, which stops everything in order. After that the default
	// handling is restored, so that a second signal ends the program immediately.
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
