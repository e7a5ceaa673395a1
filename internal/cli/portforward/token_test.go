package portforward

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestWithUserToken covers all ways of a kubeconfig to authenticate.
func TestWithUserToken(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	execConfig := func(name, status string) rest.Config { // client-go caches credentials by command
		script := write(name, "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":"+status+"}'\n", 0o755)
		return rest.Config{Host: "https://example.com", ExecProvider: &clientcmdapi.ExecConfig{Command: script, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
	}
	for name, tc := range map[string]struct {
		config  func() rest.Config
		want    string
		wantErr string
	}{
		"token":             {config: func() rest.Config { return rest.Config{BearerToken: "canary-1"} }, want: "Bearer canary-1"},
		"file":              {config: func() rest.Config { return rest.Config{BearerTokenFile: write("token", "canary-2", 0o600)} }, want: "Bearer canary-2"},
		"exec plugin":       {config: func() rest.Config { return execConfig("good", `{"token":"canary-3"}`) }, want: "Bearer canary-3"},
		"exec plugin fails": {config: func() rest.Config { return execConfig("bad", `{}`) }, wantErr: "get the token of your kubeconfig: "},
		"certificate":       {config: func() rest.Config { return rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}} }, wantErr: "your kubeconfig has no token, and the center does not accept client certificates; use a service account with --serviceaccount"},
		"password":          {config: func() rest.Config { return rest.Config{Username: "ann", Password: "canary-4"} }, wantErr: "your kubeconfig has no token"},
		"impersonation": {config: func() rest.Config {
			return rest.Config{BearerToken: "canary-5", Impersonate: rest.ImpersonationConfig{UserName: "bob"}}
		}, wantErr: "does not support --as"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			config := tc.config()
			transport, err := WithUserToken(t.Context(), &config, ServiceAccount{}, roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				got = r.Header.Get("Authorization")
				return nil, errors.New("request intercepted")
			}))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || strings.Contains(err.Error(), "canary") {
					t.Errorf("got %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, URL, http.NoBody)
			if response, err := transport.RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A token is created on demand and renewed before it expires.
func TestServiceAccountTokenIsRenewed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	created := 0
	kube := fake.NewClientset()
	kube.PrependReactor("create", "serviceaccounts", func(a k8stesting.Action) (bool, runtime.Object, error) {
		created++
		c := a.(k8stesting.CreateAction)
		if c.GetNamespace() != "shop" || c.GetSubresource() != "token" {
			t.Errorf("got %v", c)
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
			Token: strings.Repeat("t", created), ExpirationTimestamp: metav1.NewTime(now.Add(10 * time.Minute))}}, nil
	})
	tokens := &serviceAccountTransport{account: ServiceAccount{Namespace: "shop", Name: "viewer"}, kube: kube, now: func() time.Time { return now }}
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{{0, "t"}, {7 * time.Minute, "t"}, {2 * time.Minute, "tt"}, {time.Minute, "tt"}} {
		now = now.Add(tc.after)
		if got, err := tokens.token(context.Background()); err != nil || got != tc.want {
			t.Errorf("after %s: got %q (%v), want %q", tc.after, got, err, tc.want)
		}
	}
}
