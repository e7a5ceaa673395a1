// Command raw-watch follows AppServices with nothing but HTTP requests. It shows what an
// informer does for a program, and what a program in a language without one has to do:
//
//	list ──► state at version 100
//	           │
//	        watch from 100 ──► events 101, 104, ... ── ends ──► watch from 104
//	           ▲                                          │
//	           └───────────── list again ◄── 410 Gone ────┘
//
// Run it with `go run ./examples/raw-watch`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	var o options
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "file to use instead of $KUBECONFIG, ~/.kube/config or the pod's own account")
	flag.StringVar(&o.namespace, "namespace", "", "namespace to watch; all if empty")
	flag.IntVar(&o.pageSize, "page", 500, "objects per page of a list")
	flag.DurationVar(&o.watchTimeout, "length", 5*time.Minute, "how long one watch lasts before the next takes over")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = run(ctx, cfg, os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "raw-watch:", err)
		os.Exit(1)
	}
}
