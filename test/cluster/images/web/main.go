// Command web is the application program of tests. It responds with its pod name, and can start slowly, fail its health
// check, crash or exit.
//
// Options, as flags or at runtime (POST /switch?healthy=false):
//
//	--start-delay=10s   listen only after this time
//	--healthy=false     /healthz answers 503
//	--needs=URL         everything answers 503 until this URL has answered once;
//	                    tcp://host:port, until it accepts a connection
//	--crash-after=5s    exit with code 1 after this time; 0s means at once
//	--exit-after=5s     exit with code 0 after this time
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	address := flag.String("address", ":8080", "listen address")
	startDelay := flag.Duration("start-delay", 0, "listen only after this time")
	health := flag.Bool("healthy", true, "initial state of /healthz")
	needs := flag.String("needs", "", "answer 503 until this URL has answered once")
	crashAfter := flag.Duration("crash-after", -1, "exit with code 1 after this time")
	exitAfter := flag.Duration("exit-after", -1, "exit with code 0 after this time")
	flag.Parse()

	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt) // until termination
	scheduleExit(*crashAfter, 1, "crashing on request")
	scheduleExit(*exitAfter, 0, "done")
	if err := serve(ctx, *address, *startDelay, requireDependency(*needs, handler(*health))); err != nil {
		log.Fatalf("web: %v", err)
	}
}

func scheduleExit(d time.Duration, code int, message string) {
	if d < 0 {
		return
	}
	time.AfterFunc(d, func() {
		log.Print(message)
		os.Exit(code)
	})
}

func serve(ctx context.Context, address string, delay time.Duration, h http.Handler) error {
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil
	}
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		log.Print("stopping")
		// Requests in flight are completed: a rolling update must not drop requests.
		stopped <- server.Shutdown(context.Background())
	}()
	log.Printf("listening on %s", address)
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return <-stopped
}

// requireDependency answers 503 until the dependency has answered once.
func requireDependency(url string, h http.Handler) http.Handler {
	if url == "" {
		return h
	}
	var dependencyUp atomic.Bool
	client := &http.Client{Timeout: time.Second}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !dependencyUp.Load() {
			if !isReachable(client, url) {
				http.Error(w, "waiting for "+url, http.StatusServiceUnavailable)
				return
			}
			dependencyUp.Store(true)
		}
		h.ServeHTTP(w, r)
	})
}

func isReachable(client *http.Client, url string) bool {
	if address, ok := strings.CutPrefix(url, "tcp://"); ok {
		c, err := net.DialTimeout("tcp", address, client.Timeout)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func handler(health bool) http.Handler {
	var healthy atomic.Bool
	healthy.Store(health)
	host, _ := os.Hostname()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "hello from %s\n", host)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			http.Error(w, "unhealthy on request", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /env/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, os.Getenv(r.PathValue("name")))
	})
	mux.HandleFunc("POST /switch", func(w http.ResponseWriter, r *http.Request) {
		v, err := strconv.ParseBool(r.URL.Query().Get("healthy"))
		if err != nil {
			http.Error(w, "say ?healthy=true or ?healthy=false", http.StatusBadRequest)
			return
		}
		healthy.Store(v)
		log.Printf("healthy=%t", v)
	})
	mux.HandleFunc("POST /crash", func(http.ResponseWriter, *http.Request) {
		log.Print("crashing on request")
		os.Exit(1)
	})
	return mux
}
