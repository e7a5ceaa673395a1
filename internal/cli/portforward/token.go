package portforward

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

// ServiceAccount is the ServiceAccount that authenticates with the center instead of the user.
type ServiceAccount struct{ Namespace, Name string }

// WithUserToken returns a transport that adds a bearer token: that of account if it has a name, otherwise
// that of the kubeconfig (inline, from a file or from an exec plugin), refreshed as for the API server.
// To use account, the user needs permission to create tokens for it.
func WithUserToken(ctx context.Context, config *rest.Config, account ServiceAccount, base http.RoundTripper) (http.RoundTripper, error) {
	if account.Name != "" {
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		t := &serviceAccountTransport{base: base, account: account, kube: kube, now: time.Now}
		_, err = t.token(ctx) // reports missing permission before the first request
		return t, err
	}
	if config.Impersonate.UserName != "" {
		return nil, errors.New("the center does not support --as; omit it, or use --serviceaccount")
	}
	var header http.Header
	probe, err := rest.HTTPWrappersForConfig(config, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		header = r.Header
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; use another one with --kubeconfig or --context", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := probe.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("get the token of your kubeconfig: %w; log in again, or use another user with --context", err)
	}
	_ = response.Body.Close()
	if scheme, _, _ := strings.Cut(header.Get("Authorization"), " "); !strings.EqualFold(scheme, "Bearer") {
		return nil, errors.New("your kubeconfig has no token, and the center does not accept client certificates; " +
			"use a service account with --serviceaccount NAME -n NAMESPACE (requires permission to create serviceaccounts/token), " +
			"or another user with --context")
	}
	return rest.HTTPWrappersForConfig(config, base)
}

// roundTripperFunc implements http.RoundTripper.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// serviceAccountTransport adds the token of a ServiceAccount.
type serviceAccountTransport struct {
	base    http.RoundTripper
	account ServiceAccount
	kube    kubernetes.Interface
	now     func() time.Time

	mu          sync.Mutex
	cachedToken string
	renewAt     time.Time
}

// tokenLifetime is the requested lifetime of tokens. The API server can choose another one.
const tokenLifetime = time.Hour

func (t *serviceAccountTransport) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.cachedToken != "" && now.Before(t.renewAt) {
		return t.cachedToken, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLifetime.Seconds()))}}
	response, err := t.kube.CoreV1().ServiceAccounts(t.account.Namespace).CreateToken(ctx, t.account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a token for ServiceAccount %s/%s: %w", t.account.Namespace, t.account.Name, cli.WithHint(err))
	}
	// Renews the token well before it expires, because event streams use it until they end.
	t.cachedToken, t.renewAt = response.Status.Token, now.Add(response.Status.ExpirationTimestamp.Sub(now)*8/10)
	return t.cachedToken, nil
}

func (t *serviceAccountTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.token(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return t.base.RoundTrip(r)
}
