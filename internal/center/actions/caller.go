package actions

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/application"
)

// FieldManager is who the API server notes as the author of what callers write through the center.
const FieldManager = "holdfast-center"

// requestTimeout is how long the API server may take for an answer that is not a stream.
const requestTimeout = 30 * time.Second

// Ref names an object in sentences and finds applications and pods.
type Ref struct {
	Kind      string
	Namespace string
	Name      string
}

func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
}

func (r Ref) administrator() string {
	if r.Namespace == "" {
		return "an administrator of the cluster"
	}
	return "an administrator of namespace " + r.Namespace
}

// namespaceFlag is the flag of kubectl that leads to it.
func (r Ref) namespaceFlag() string {
	if r.Namespace == "" {
		return ""
	}
	return " -n " + r.Namespace
}

// validate refuses names that lead elsewhere in an address: a pod called ../secrets/x.
func (r Ref) validate(segments ...string) error {
	if r.Name == "" {
		return invalid("no name given (%s); name one", r.Kind)
	}
	for _, segment := range append(segments, r.Name, r.Namespace) {
		if problems := content.IsPathSegmentName(segment); len(problems) > 0 {
			return invalid("%q cannot be part of the address of an object (%s): %s; correct it", segment, r.Kind, strings.Join(problems, ", "))
		}
	}
	return nil
}

// Caller acts with the token of one caller.
type Caller struct {
	config     *rest.Config
	httpClient *http.Client
	client     client.Client
	clock      clock.PassiveClock
}

// CallerFactory makes a Caller for each request.
type CallerFactory struct {
	clients *application.Clients
	clock   clock.PassiveClock
}

// NewCallerFactory is called once: it learns the kinds that all callers share.
func NewCallerFactory(clk clock.PassiveClock) *CallerFactory {
	return &CallerFactory{clients: application.NewClients(), clock: clk}
}

// ForConfig makes a caller from access with a token of its own. It costs no request, and connections are
// shared with other callers as far as the configuration allows.
func (c *CallerFactory) ForConfig(config *rest.Config) (*Caller, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = FieldManager
	config.Timeout = 0 // a log may go on; everything else has a deadline of its own
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	kubeClient, err := c.clients.NewClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	return &Caller{config: config, httpClient: httpClient, client: kubeClient, clock: c.clock}, nil
}

// application reads the application that a ref names.
func (c *Caller) application(ctx context.Context, ref Ref) (application.Application, error) {
	if err := ref.validate(); err != nil {
		return nil, err
	}
	for _, k := range application.Kinds {
		if k.Name != ref.Kind {
			continue
		}
		app := k.New()
		if err := c.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, app); err != nil {
			return nil, toError(opGet, ref, err)
		}
		return app, nil
	}
	return nil, invalid("%s is no application of Holdfast and is only shown; change it with kubectl, or use an AppStack, AppService or CloudManager", ref)
}
