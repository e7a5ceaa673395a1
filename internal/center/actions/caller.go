package actions

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// FieldManager is the field manager of writes through the center.
const FieldManager = "holdfast-center"

// requestTimeout is the timeout of API server requests other than streams.
const requestTimeout = 30 * time.Second

// Ref identifies an object in requests and messages.
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
		return "a cluster administrator"
	}
	return "an administrator of namespace " + r.Namespace
}

// namespaceFlag returns the kubectl flag for the namespace of the object.
func (r Ref) namespaceFlag() string {
	if r.Namespace == "" {
		return ""
	}
	return " -n " + r.Namespace
}

// validate rejects path traversal: a pod named ../secrets/x would be the path of a Secret.
func (r Ref) validate(segments ...string) error {
	if r.Name == "" {
		return invalid("the name of the %s is missing; add it", r.Kind)
	}
	for _, segment := range append(segments, r.Name, r.Namespace) {
		if problems := content.IsPathSegmentName(segment); len(problems) > 0 {
			return invalid("%q is not a valid path segment for an object (%s): %s; correct it", segment, r.Kind, strings.Join(problems, ", "))
		}
	}
	return nil
}

// Caller sends requests with the token of one user.
type Caller struct {
	config     *rest.Config
	httpClient *http.Client
	client     client.Client
	clock      clock.PassiveClock
}

// CallerFactory creates a Caller for each request.
type CallerFactory struct {
	clients *kubeclient.Clients
	clock   clock.PassiveClock
}

// NewCallerFactory returns a factory. Create only one: its callers share the discovered kinds.
func NewCallerFactory(clk clock.PassiveClock) *CallerFactory {
	return &CallerFactory{clients: kubeclient.NewClients(), clock: clk}
}

// ForConfig returns a Caller that uses the token of config. It sends no request, and callers share connections
// if their configurations allow it.
func (c *CallerFactory) ForConfig(config *rest.Config) (*Caller, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = FieldManager
	config.Timeout = 0 // logs can be streamed for any time; all other requests have a deadline
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

// application gets an application from the API server.
func (c *Caller) application(ctx context.Context, ref Ref) (appkind.Application, error) {
	if err := ref.validate(); err != nil {
		return nil, err
	}
	for _, k := range slices.Concat(appkind.Builtin, appkind.Discovered()) {
		if k.Name() != ref.Kind {
			continue
		}
		app := k.New()
		if err := c.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, app); err != nil {
			return nil, toError(opGet, ref, err)
		}
		return app, nil
	}
	return nil, invalid("%s is not managed by Holdfast and is read-only here; change it with the tool that created it", ref)
}
