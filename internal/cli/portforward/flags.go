package portforward

import (
	"context"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Flags of verbs that ask the center.
type Flags struct {
	Namespace, Pod string
	serviceAccount string
}

// AddFlags adds them to those of a verb.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Namespace, "center-namespace", cli.OperatorNamespace, "where the application center runs")
	flags.StringVar(&f.Pod, "pod", "", "the pod of the center to ask; any that is ready if empty")
	flags.StringVar(&f.serviceAccount, "serviceaccount", "", "look as this service account of the namespace (-n) instead of with a token of your kubeconfig")
}

// Open reaches the center, with requests that say who the user is.
func (f *Flags) Open(ctx context.Context, env *cli.Env) (*Tunnel, http.RoundTripper, error) {
	config, err := env.Config()
	if err != nil {
		return nil, nil, err
	}
	namespace, err := env.Namespace()
	if err != nil {
		return nil, nil, err
	}
	t, err := New(config, f.Namespace, f.Pod)
	if err != nil {
		return nil, nil, err
	}
	// Whose token it is comes first: it is quicker than a tunnel that nobody may use.
	transport, err := WithUserToken(ctx, config, ServiceAccount{Namespace: namespace, Name: f.serviceAccount}, t.Transport())
	if err != nil {
		return nil, nil, err
	}
	return t, transport, t.Open(ctx)
}
