// Package cli contains the code that the commands of the plugin share: clients for the cluster of the
// kubeconfig, the lookup of applications, and output. Each command has its own subpackage.
//
// Safety rule: the plugin uses the permissions of the caller, writes only objects of Holdfast's kinds
// and never prints the value of a Secret.
package cli

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// Env is the environment of a command.
type Env struct {
	// Getter provides access to the cluster, configured by the flags of kubectl.
	Getter genericclioptions.RESTClientGetter
	// Version is the version of the plugin.
	Version string
	// Color is auto, always or never.
	Color string
	// Now returns the current time, from which ages are computed.
	Now func() time.Time
	// Interactive reports whether the user can answer questions. Nil: if the input is a terminal.
	Interactive func(in io.Reader) bool
}

// Namespace returns the current namespace: the flag, or the namespace of the context.
func (e *Env) Namespace() (string, error) {
	ns, _, err := e.Getter.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w; use another one with --kubeconfig", err)
	}
	return ns, nil
}

// Terminal returns the terminal properties of an output.
func (e *Env) Terminal(out io.Writer) Terminal { return NewTerminal(out, e.Color) }

// Config returns the client configuration for the API server.
func (e *Env) Config() (*rest.Config, error) {
	c, err := e.Getter.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; use another one with --kubeconfig or --context", err)
	}
	c = rest.CopyConfig(c)
	c.UserAgent = "kubectl-holdfast/" + e.Version
	// No client-side rate limit: a command sends few requests. API priority and fairness limits them,
	// as for kubectl.
	c.QPS = -1
	return c, nil
}

// Client returns a client for the kinds that applications consist of. It skips API discovery, which would
// take longer than most requests.
func (e *Env) Client() (client.Client, error) {
	c, err := e.Config()
	if err != nil {
		return nil, err
	}
	return NewClient(c, nil)
}

// WatchClient returns a client that can also watch.
func (e *Env) WatchClient() (client.WithWatch, error) {
	c, err := e.Config()
	if err != nil {
		return nil, err
	}
	return NewWatchClient(c)
}

// discardLibraryLogs prevents controller-runtime from warning, after 30 seconds, that no logger is set.
var discardLibraryLogs = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// NewClient returns a client with a static REST mapping. If httpClient is nil, it creates one.
func NewClient(c *rest.Config, httpClient *http.Client) (client.Client, error) {
	discardLibraryLogs()
	return kubeclient.NewClients().NewClient(c, httpClient)
}

// NewWatchClient returns a client that can also watch.
func NewWatchClient(c *rest.Config) (client.WithWatch, error) {
	discardLibraryLogs()
	return kubeclient.NewClients().NewClient(c, nil)
}
