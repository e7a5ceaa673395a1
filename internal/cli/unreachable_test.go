package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

func TestAsUnreachable(t *testing.T) {
	request := func(err error) error {
		return fmt.Errorf("list AppStacks: %w", &url.Error{Op: "Get", URL: "https://api.example.com:6443/apis?limit=500", Err: err})
	}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	const next = "; check that the cluster is running and that your network can reach it, or use another cluster with --context or --kubeconfig"
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"no error":    {nil, ""},
		"other error": {errors.New("forbidden"), ""},
		"refused":     {request(dial(syscall.ECONNREFUSED)), "cannot reach the API server https://api.example.com:6443: connection refused" + next},
		"unknown host": {request(dial(&net.DNSError{Name: "api.example.com", IsNotFound: true})),
			"cannot reach the API server https://api.example.com:6443: no address found for api.example.com" + next},
		"timeout":        {request(os.ErrDeadlineExceeded), "cannot reach the API server https://api.example.com:6443: no response in time" + next},
		"no route":       {request(dial(syscall.EHOSTUNREACH)), "cannot reach the API server https://api.example.com:6443: no route to host" + next},
		"without an URL": {dial(syscall.ECONNREFUSED), "cannot reach the API server: connection refused" + next},
		"interrupted":    {request(dial(context.Canceled)), ""},
		"listen":         {&net.OpError{Op: "listen", Net: "tcp", Err: syscall.EADDRINUSE}, ""},
		"known":          {fmt.Errorf("get AppStack: %w", &UnreachableError{server: defaultServer, Alternative: ", or --offline"}), "no kubeconfig found; set KUBECONFIG, or use --kubeconfig, or --offline"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := AsUnreachable(tc.err); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
