// Command raw-watch follows AppServices with plain HTTP requests. It shows the work of an informer,
// and what a program in a language without informers must implement:
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
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "",
		"path of a kubeconfig; default: $KUBECONFIG, ~/.kube/config or the ServiceAccount of the pod")
	flag.StringVar(&o.namespace, "namespace", "", "namespace to watch; empty means all")
	flag.IntVar(&o.pageSize, "page", 500, "objects per page of a list")
	flag.DurationVar(&o.watchTimeout, "length", 5*time.Minute, "duration of a watch before the next one starts")
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
