package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"

	"github.com/spf13/cobra"
)

// UnreachableError reports that the API server cannot be reached.
type UnreachableError struct {
	server, reason string
	// Alternative is a way to use the command without a cluster.
	Alternative string
	cause       error
}

// defaultServer is the server that client-go uses without a kubeconfig.
const defaultServer = "http://localhost:8080"

func (e *UnreachableError) Error() string {
	if e.server == defaultServer {
		return "no kubeconfig found; set KUBECONFIG, or use --kubeconfig" + e.Alternative
	}
	return fmt.Sprintf("cannot reach the API server%s: %s; check that the cluster is running and that your network can reach it, "+
		"or use another cluster with --context or --kubeconfig%s", spaced(e.server), e.reason, e.Alternative)
}

func (e *UnreachableError) Unwrap() error { return e.cause }

func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

// AsUnreachable returns an error as UnreachableError, or nil if it has another cause.
func AsUnreachable(err error) *UnreachableError {
	var unreachable *UnreachableError
	if errors.As(err, &unreachable) {
		return unreachable
	}
	reason := connectionFailure(err)
	if reason == "" {
		return nil
	}
	unreachable = &UnreachableError{reason: reason, cause: err}
	var request *url.Error
	if errors.As(err, &request) {
		if u, err := url.Parse(request.URL); err == nil {
			unreachable.server = u.Scheme + "://" + u.Host
		}
	}
	return unreachable
}

// connectionFailure returns why no connection was established, or "" if an error has another cause.
func connectionFailure(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var request *url.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("no address found for %s", dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &request) && request.Timeout() && !errors.Is(err, context.Canceled):
		return "no response in time"
	case errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, context.Canceled):
		return op.Err.Error()
	}
	return ""
}

// ExplainUnreachable makes commands report once that the API server cannot be reached, instead of the failed
// request.
func ExplainUnreachable(commands ...*cobra.Command) {
	for _, c := range commands {
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				err := run(cmd, args)
				if unreachable := AsUnreachable(err); unreachable != nil {
					return unreachable
				}
				return err
			}
		}
	}
}
