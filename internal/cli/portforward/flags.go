package portforward

import (
	"context"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Flags are the flags of commands that connect to the center.
type Flags struct {
	Namespace, Pod string
	serviceAccount string
}

// AddFlags adds the flags to a command.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Namespace, "center-namespace", cli.OperatorNamespace, "Namespace of the application center")
	flags.StringVar(&f.Pod, "pod", "", "Pod of the center to connect to. Default: any ready pod")
	flags.StringVar(&f.serviceAccount, "serviceaccount", "",
		"ServiceAccount in the namespace (-n) to authenticate as, instead of using the token of your kubeconfig")
}

// Open connects to the center. Requests of the returned transport are authenticated.
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
	// Without a cluster or a center, the kind of credentials does not matter.
	if _, err := t.findReadyPod(ctx); err != nil {
		return nil, nil, err
	}
	// Gets the token before opening a tunnel: that fails faster.
	transport, err := WithUserToken(ctx, config, ServiceAccount{Namespace: namespace, Name: f.serviceAccount}, t.Transport())
	if err != nil {
		return nil, nil, err
	}
	return t, transport, t.Open(ctx)
}
