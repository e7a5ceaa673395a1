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

var pprofDir = flag.String("pprof", "", "folder to write CPU profiles of the operator and of the API server to, of each burst, of ordered rollouts, and of the seconds after a restart among edits; both are a little slower then")

// pprofSeconds is the longest that a profile is taken for.
const pprofSeconds = 30

// pprofArgs make the operator tell what it computes, if somebody asks.
func (s *stage) pprofArgs() []string {
	s.Helper()
	if *pprofDir == "" {
		return nil
	}
	address, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.must(address.Close())
	s.pprof = address.Addr().String()
	return []string{"--pprof-address=" + s.pprof}
}

// profiled takes profiles while something runs; what is not over by then is not in them.
func (s *stage) profiled(name string, f func()) {
	s.Helper()
	wait := s.profile(name, pprofSeconds)
	if *pprofDir != "" {
		time.Sleep(calm / 10) // until they are being taken
	}
	f()
	wait()
}

// profile begins to take profiles, if somebody wants them, and returns how to wait for their end.
func (s *stage) profile(name string, seconds int) (wait func()) {
	s.Helper()
	if *pprofDir == "" {
		return func() {}
	}
	s.must(os.MkdirAll(*pprofDir, 0o755))
	admin, err := rest.HTTPClientFor(s.plane.Config)
	s.must(err)
	path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds)
	var both sync.WaitGroup
	take := func(who string, client *http.Client, url string) {
		both.Go(func() {
			file := filepath.Join(*pprofDir, name+"-"+who+".pprof")
			if err := download(s.Context(), client, url, file); err != nil {
				s.Logf("profile of the %s: %v", who, err)
			}
		})
	}
	take("apiserver", admin, s.plane.Config.Host+path)
	if s.pprof != "" {
		take("operator", http.DefaultClient, "http://"+s.pprof+path)
	}
	return both.Wait
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
