// Command center runs the application center, which serves the live state of the applications of a cluster.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/holdfast-dev/holdfast/internal/center"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

// version is set by the linker.
var version = "dev"

// options are the flags.
type options struct {
	address, healthAddress string
	certDir                string
	namespaces             string
	audiences              string
	maxConnections         int
}

func main() {
	var o options
	flag.StringVar(&o.address, "listen", ":8443", "address of the HTTP API and the page")
	flag.StringVar(&o.healthAddress, "health-listen", ":8081", "address of /healthz and /readyz")
	flag.StringVar(&o.certDir, "cert-dir", "",
		"directory with tls.crt and tls.key; changed files are reloaded (default: a self-signed certificate, created at each start)")
	flag.StringVar(&o.namespaces, "namespaces", "", "comma-separated namespaces to watch (default: all namespaces)")
	flag.StringVar(&o.audiences, "token-audiences", "",
		"comma-separated audiences of tokens; a token needs one of them (default: the audiences of the API server)")
	flag.IntVar(&o.maxConnections, "max-connections", 5000, "maximum number of open connections; more connections wait")
	flag.Parse()
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, log, o)
	stop()
	if err != nil {
		log.Error(err, "Center failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, log logr.Logger, o options) error {
	cfg, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("load the Kubernetes client configuration: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "holdfast-center/" + version
	if o.maxConnections < 1 {
		return fmt.Errorf("--max-connections=%d must be at least 1", o.maxConnections)
	}
	c, err := center.NewCenter(center.Options{Config: cfg, Namespaces: splitList(o.namespaces)},
		authz.Options{Audiences: splitList(o.audiences)}, sse.Options{}, version)
	if err != nil {
		return err
	}
	certificate, err := certificateSource(ctx, log, o.certDir)
	if err != nil {
		return err
	}
	api := httpapi.NewHTTPServer(c.Handler())
	api.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	health := httpapi.NewHTTPServer(healthHandler(c))
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wg.Go(func() { c.Run(ctx) })
	for _, s := range []struct {
		*http.Server
		address string
	}{{api, o.address}, {health, o.healthAddress}} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w; check whether another process uses the port", s.address, err)
		}
		if s.Server == api {
			listener = netutil.LimitListener(listener, o.maxConnections)
		}
		wg.Go(func() { cancel(serve(s.Server, listener)) })
	}
	log.Info("Center is listening", "address", o.address, "version", version)
	<-ctx.Done()
	// Streams are closed with a reconnect event; other requests have time to finish.
	shutdownCtx, cancelShutdown := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelShutdown()
	if err := errors.Join(api.Shutdown(shutdownCtx), health.Shutdown(shutdownCtx)); err != nil {
		log.Info("Some requests did not finish before the shutdown timeout", "error", err.Error())
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// splitList splits a comma-separated flag.
func splitList(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
}

// serve serves until the server is shut down.
func serve(s *http.Server, l net.Listener) error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}

// healthHandler serves the liveness and readiness probes.
func healthHandler(c *center.Center) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.Ready() {
			http.Error(w, "informers have not synced yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	return mux
}

// certificateSource loads the certificate from a directory, or creates a self-signed one if dir is empty.
func certificateSource(ctx context.Context, log logr.Logger, dir string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if dir == "" {
		cert, err := newSelfSignedCertificate()
		if err != nil {
			return nil, fmt.Errorf("create a self-signed certificate: %w", err)
		}
		log.Info("Using a self-signed certificate; set --cert-dir to use a certificate that browsers trust")
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil }, nil
	}
	w, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("read the certificate in %s: %w", dir, err)
	}
	go func() { _ = w.Start(ctx) }()
	return w.GetCertificate, nil
}
