// Command watch-anything watches resources that it is told about while it runs, of any
// group, ours or not. It reads one command per line:
//
//	+deployments.v1.apps            watch these; the core group has no name: +pods.v1
//	-deployments.v1.apps            stop watching them
//	?team=blue                      what is watched and has this label
//	@deployments.v1.apps shop/web   what is watched and belongs to this object
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
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "file to use instead of $KUBECONFIG, ~/.kube/config or the pod's own account")
	namespace := flag.String("namespace", "", "namespace to watch; all if empty")
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
