package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Account is a service account whose token is shown to the center instead of the user's own.
type Account struct{ Namespace, Name string }

// AsUser sends requests through base with the token that the kubeconfig has for its user: given,
// in a file, or from a program, each made anew as it is for the API server. Without one, account
// stands in for the user if it has a name; the user needs the right to make tokens for it.
func AsUser(ctx context.Context, config *rest.Config, account Account, base http.RoundTripper) (http.RoundTripper, error) {
	if account.Name != "" {
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		t := &accountTransport{base: base, account: account, kube: kube, now: time.Now}
		_, err = t.token(ctx) // or the first request would say that it may not
		return t, err
	}
	if config.Impersonate.UserName != "" {
		return nil, errors.New("the center shows what you may see yourself, and does not know --as; leave it out, or use --serviceaccount")
	}
	var found http.Header
	probe, err := rest.HTTPWrappersForConfig(config, roundTripper(func(r *http.Request) (*http.Response, error) {
		found = r.Header
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig or --context", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := probe.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("get the token of your kubeconfig: %w; log in again, or choose another user with --context", err)
	}
	_ = answer.Body.Close()
	if scheme, _, _ := strings.Cut(found.Get("Authorization"), " "); !strings.EqualFold(scheme, "Bearer") {
		return nil, errors.New("your kubeconfig has no token, and the center cannot check a client certificate; " +
			"look as a service account: --serviceaccount NAME -n NAMESPACE (you need the right to create serviceaccounts/token), or choose another user with --context")
	}
	return rest.HTTPWrappersForConfig(config, base)
}

// roundTripper is a function that answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// accountTransport adds the token of a service account.
type accountTransport struct {
	base    http.RoundTripper
	account Account
	kube    kubernetes.Interface
	now     func() time.Time

	mu      sync.Mutex
	current string
	renew   time.Time
}

// lifetime is how long a token of an account is good for, unless the API server says otherwise.
const lifetime = time.Hour

func (t *accountTransport) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.current != "" && now.Before(t.renew) {
		return t.current, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime.Seconds()))}}
	answer, err := t.kube.CoreV1().ServiceAccounts(t.account.Namespace).CreateToken(ctx, t.account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a token for ServiceAccount %s/%s: %w", t.account.Namespace, t.account.Name, cli.Explained(err))
	}
	// Well before it ends: who follows a stream has it until then.
	t.current, t.renew = answer.Status.Token, now.Add(answer.Status.ExpirationTimestamp.Sub(now)*8/10)
	return t.current, nil
}

func (t *accountTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.token(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return t.base.RoundTrip(r)
}
