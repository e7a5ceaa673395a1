package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

var pprofDir = flag.String("pprof", "", "directory for CPU profiles of the operator and the API server during bursts, ordered rollouts and restarts; profiling slows both down")

// pprofSeconds is the maximum duration of a profile.
const pprofSeconds = 30

// pprofArgs enable profiling of the operator if requested.
func (s *harness) pprofArgs() []string {
	s.Helper()
	if *pprofDir == "" {
		return nil
	}
	address, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.must(address.Close())
	s.pprofAddress = address.Addr().String()
	return []string{"--pprof-address=" + s.pprofAddress}
}

// withProfile takes profiles while f runs, up to the maximum duration.
func (s *harness) withProfile(name string, f func()) {
	s.Helper()
	wait := s.startProfile(name, pprofSeconds)
	if *pprofDir != "" {
		time.Sleep(settleTime / 10) // until profiling has started
	}
	f()
	wait()
}

// startProfile starts profiling if requested; wait waits for its end.
func (s *harness) startProfile(name string, seconds int) (wait func()) {
	s.Helper()
	if *pprofDir == "" {
		return func() {}
	}
	s.must(os.MkdirAll(*pprofDir, 0o755))
	admin, err := rest.HTTPClientFor(s.plane.Config)
	s.must(err)
	path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds)
	var group sync.WaitGroup
	fetch := func(process string, client *http.Client, url string) {
		group.Go(func() {
			file := filepath.Join(*pprofDir, name+"-"+process+".pprof")
			if err := download(s.Context(), client, url, file); err != nil {
				s.Logf("profile of the %s: %v", process, err)
			}
		})
	}
	fetch("apiserver", admin, s.plane.Config.Host+path)
	if s.pprofAddress != "" {
		fetch("operator", http.DefaultClient, "http://"+s.pprofAddress+path)
	}
	return group.Wait
}

func download(ctx context.Context, client *http.Client, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
