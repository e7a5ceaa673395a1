// Package setup is what the programs of the peers have in common around their main function:
// flags, access to the API server, and the word "ready".
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

// ParseFlags reads the flags. The program may have added its own before.
func ParseFlags() Options {
	kubeconfig := flag.Lookup("kubeconfig") // controller-runtime brings one along
	if kubeconfig == nil {
		flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the API server")
		kubeconfig = flag.Lookup("kubeconfig")
	}
	workers := flag.Int("workers", 8, "how many AppServices are worked on at once")
	qps := flag.Float64("qps", -1, "requests per second that the client allows itself; negative means no limit")
	flag.Parse()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		Fatal(fmt.Errorf("read --kubeconfig=%s: %w", kubeconfig.Value, err))
	}
	cfg.QPS, cfg.Burst = float32(*qps), max(1, int(2**qps))
	return Options{Workers: *workers, Config: cfg}
}

// SignalContext ends when the process is asked to end.
func SignalContext() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
}

// AnnounceReady tells who started the process that its caches are filled and that it works.
func AnnounceReady() { fmt.Println("ready") }

// Fatal ends a process that cannot go on.
func Fatal(err error) {
	klog.ErrorS(err, "Cannot go on")
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
}
