// Command watch-anything watches resources of any group, which are added and removed at run time.
// It reads one command per line:
//
//	+deployments.v1.apps            watch a resource; the core group has no name: +pods.v1
//	-deployments.v1.apps            stop watching it
//	?team=blue                      list watched objects with this label
//	@deployments.v1.apps shop/web   list watched objects that this object owns
//
// Run it with `go run ./examples/watch-anything`, or with commands from a pipe.
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
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "",
		"path of a kubeconfig; default: $KUBECONFIG, ~/.kube/config or the ServiceAccount of the pod")
	namespace := flag.String("namespace", "", "namespace to watch; empty means all")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = run(ctx, cfg, os.Stdin, os.Stdout, *namespace)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch-anything:", err)
		os.Exit(1)
	}
}
