// Package setup contains the common setup of the peers: flags, access to the API server, and the readiness message.
package setup

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Options are the flags of every peer.
type Options struct {
	Workers int
	Config  *rest.Config
}

// ParseFlags parses the flags. The program may have registered others before.
func ParseFlags() Options {
	kubeconfig := flag.Lookup("kubeconfig") // controller-runtime registers this flag
	if kubeconfig == nil {
		flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of the kubeconfig")
		kubeconfig = flag.Lookup("kubeconfig")
	}
	workers := flag.Int("workers", 8, "number of concurrent reconciliations")
	qps := flag.Float64("qps", -1, "client-side limit of requests per second; negative disables it")
	flag.Parse()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		Fatal(fmt.Errorf("read --kubeconfig=%s: %w", kubeconfig.Value, err))
	}
	cfg.QPS, cfg.Burst = float32(*qps), max(1, int(2**qps))
	return Options{Workers: *workers, Config: cfg}
}

// SignalContext returns a context that ends on SIGTERM or SIGINT.
func SignalContext() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
}

// AnnounceReady reports to the parent process that the caches are synced.
func AnnounceReady() { fmt.Println("ready") }

// Fatal logs the error and exits.
func Fatal(err error) {
	klog.ErrorS(err, "Fatal error")
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
}
