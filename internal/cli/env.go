// Package cli is what the verbs of the plugin share: the cluster as the user's kubeconfig
// reaches it, the applications in it, and how answers are printed. Each verb has a folder
// of its own below.
//
// Safety rule: it reads with the rights of the caller and writes only objects of our own
// kinds. No value of a Secret is ever printed.
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

	"github.com/holdfast-dev/holdfast/internal/application"
)

// Env is what a verb runs in.
type Env struct {
	// Getter reaches the cluster; its flags are those of kubectl.
	Getter genericclioptions.RESTClientGetter
	// Version is that of the plugin.
	Version string
	// Color is auto, always or never.
	Color string
	// Now is the time that ages are counted from.
	Now func() time.Time
	// Interactive says whether somebody sits at an input and can be asked; nil means at a terminal.
	Interactive func(in io.Reader) bool
}

// Namespace is the one that the user works in.
func (e *Env) Namespace() (string, error) {
	ns, _, err := e.Getter.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig", err)
	}
	return ns, nil
}

// Terminal is where an answer goes.
func (e *Env) Terminal(out io.Writer) Terminal { return NewTerminal(out, e.Color) }

// Config is how the API server is reached.
func (e *Env) Config() (*rest.Config, error) {
	c, err := e.Getter.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig or --context", err)
	}
	c = rest.CopyConfig(c)
	c.UserAgent = "kubectl-holdfast/" + e.Version
	// A person waits: a verb asks a few times and is then gone. The API server's own
	// fairness is the limit, as for kubectl.
	c.QPS = -1
	return c, nil
}

// Client reads and writes the kinds that an application is made of. It does not ask the API
// server first which kinds there are: that would take longer than most answers.
func (e *Env) Client() (client.Client, error) {
	c, err := e.Config()
	if err != nil {
		return nil, err
	}
	return NewClient(c, nil)
}

// WatchClient is a client that also tells what happens.
func (e *Env) WatchClient() (client.WithWatch, error) {
	c, err := e.Config()
	if err != nil {
		return nil, err
	}
	return NewWatchClient(c)
}

// discardLibraryLogs keeps the library from complaining, after half a minute, that nobody wants its log.
var discardLibraryLogs = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// NewClient makes a client that knows its kinds already. A nil http.Client means a new one.
func NewClient(c *rest.Config, httpClient *http.Client) (client.Client, error) {
	discardLibraryLogs()
	return application.NewClients().NewClient(c, httpClient)
}

// NewWatchClient makes a client that can also watch.
func NewWatchClient(c *rest.Config) (client.WithWatch, error) {
	discardLibraryLogs()
	return application.NewClients().NewClient(c, nil)
}
