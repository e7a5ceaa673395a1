package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/center/access"
)

func TestTokenReviewsAreTakenStrictly(t *testing.T) {
	alice := authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	cases := map[string]struct {
		status    authenticationv1.TokenReviewStatus
		audiences []string
		want      string // empty: it is alice
	}{
		"accepted":              {status: authenticationv1.TokenReviewStatus{Authenticated: true, User: alice}},
		"accepted beside error": {status: authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Error: "webhook"}},
		"refused":               {status: authenticationv1.TokenReviewStatus{User: alice}, want: "does not accept it"},
		"refused as expired":    {status: authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, service account token has expired]"}, want: "has expired"},
		"without a name":        {status: authenticationv1.TokenReviewStatus{Authenticated: true}, want: "nobody"},
		"anonymous": {status: authenticationv1.TokenReviewStatus{
			Authenticated: true, User: authenticationv1.UserInfo{Username: "system:anonymous"},
		}, want: "nobody"},
		"in the group of the anonymous": {status: authenticationv1.TokenReviewStatus{
			Authenticated: true, User: authenticationv1.UserInfo{Username: "x", Groups: []string{"system:unauthenticated"}},
		}, want: "nobody"},
		"for our audience": {
			status:    authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Audiences: []string{"center"}},
			audiences: []string{"other", "center"},
		},
		"for another audience": {
			status:    authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Audiences: []string{"vault"}},
			audiences: []string{"center"}, want: "not made for center",
		},
		"for no audience": {
			status:    authenticationv1.TokenReviewStatus{Authenticated: true, User: alice},
			audiences: []string{"center"}, want: "not made for center",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.token = func(string) authenticationv1.TokenReviewStatus { return tc.status }
			r, _ := newReviewer(t, s.config, access.Options{Audiences: tc.audiences})
			user, err := r.Authenticate(t.Context(), access.NewToken("abc"))
			if tc.want == "" {
				if err != nil || user.Name() != "alice" {
					t.Fatalf("got %v, %v", user, err)
				}
				return
			}
			if user != nil || !errors.Is(err, access.ErrNotValid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v; want ErrNotValid with %q", user, err, tc.want)
			}
		})
	}
}

func TestNoAnswerIsNeitherYesNorNo(t *testing.T) {
	cases := map[string]struct {
		down *metav1.Status
		want string
	}{
		"broken":         {status(500, metav1.StatusReasonInternalError), "InternalError"},
		"unavailable":    {status(503, metav1.StatusReasonServiceUnavailable), "ServiceUnavailable"},
		"not understood": {status(422, metav1.StatusReasonInvalid), "Invalid"},
		"not allowed":    {status(403, metav1.StatusReasonForbidden), "system:auth-delegator"},
		"not known":      {status(401, metav1.StatusReasonUnauthorized), "system:auth-delegator"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.rights = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
				return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
			}
			s.down = tc.down
			r, _ := newReviewer(t, s.config, access.Options{})
			for range 2 {
				user, err := r.Authenticate(t.Context(), access.NewToken("abc"))
				if user != nil || !errors.Is(err, access.ErrCannotCheck) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, %v; want ErrCannotCheck with %q", user, err, tc.want)
				}
				alice := access.NewUser(authenticationv1.UserInfo{Username: "alice"})
				yes, err := r.Allowed(t.Context(), alice, access.Attributes{Verb: "list", Resource: "pods", Namespace: "shop"})
				if yes || !errors.Is(err, access.ErrCannotCheck) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %t, %v; want no and ErrCannotCheck with %q", yes, err, tc.want)
				}
				if !strings.Contains(err.Error(), "whether alice may list pods") {
					t.Errorf("the error does not say what was asked: %v", err)
				}
			}
			if tokens, rights := s.counts(); tokens != 2 || rights != 2 {
				t.Errorf("got %d and %d reviews: an error was kept, or asked for twice", tokens, rights)
			}
			if got := r.Stats(); got.Errors != 4 || got.Cached != 0 {
				t.Errorf("got %+v", got)
			}
			s.set(func() { s.down = nil })
			if _, err := r.Authenticate(t.Context(), access.NewToken("abc")); err != nil {
				t.Errorf("when it is back: %v", err)
			}
		})
	}
}

func TestDeniedIsStrongerThanAllowed(t *testing.T) {
	s := newServer(t)
	s.rights = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}
	}
	r, _ := newReviewer(t, s.config, access.Options{})
	alice := access.NewUser(authenticationv1.UserInfo{Username: "alice"})
	if yes, err := r.Allowed(t.Context(), alice, access.Attributes{Verb: "list", Resource: "pods"}); yes || err != nil {
		t.Errorf("got %t, %v", yes, err)
	}
}

func TestQuestionsThatNobodyAsks(t *testing.T) {
	s := newServer(t)
	s.rights = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	r, _ := newReviewer(t, s.config, access.Options{})
	alice := access.NewUser(authenticationv1.UserInfo{Username: "alice"})
	if yes, err := r.Allowed(t.Context(), nil, access.Attributes{Verb: "list", Resource: "pods"}); yes || !errors.Is(err, access.ErrNoToken) {
		t.Errorf("nobody: got %t, %v", yes, err)
	}
	for _, a := range []access.Attributes{{}, {Verb: "list"}, {Resource: "pods"}} {
		if yes, err := r.Allowed(t.Context(), alice, a); yes || !errors.Is(err, access.ErrCannotCheck) {
			t.Errorf("%+v: got %t, %v", a, yes, err)
		}
	}
	if _, err := r.Authenticate(t.Context(), access.Token{}); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("no token: got %v", err)
	}
	if _, err := r.ConfigFor(access.Token{}); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("config for no token: got %v", err)
	}
}

// Only for list and watch a request to all namespaces exists, so only they may be answered by
// the answer for all namespaces.
func TestAllNamespacesAnswersForReadsAlone(t *testing.T) {
	s := newServer(t)
	s.rights = func(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.ResourceAttributes.Namespace == ""}
	}
	r, _ := newReviewer(t, s.config, access.Options{})
	alice := access.NewUser(authenticationv1.UserInfo{Username: "alice"})
	cases := map[access.Attributes]bool{
		{Verb: "list", Resource: "pods", Namespace: "shop"}:            true,
		{Verb: "watch", Resource: "pods", Namespace: "shop"}:           true,
		{Verb: "list", Resource: "pods", Namespace: "shop", Name: "a"}: false,
		{Verb: "get", Resource: "pods", Namespace: "shop"}:             false,
		{Verb: "delete", Resource: "pods", Namespace: "shop"}:          false,
	}
	for a, want := range cases {
		if got, err := r.Allowed(t.Context(), alice, a); got != want || err != nil {
			t.Errorf("%s: got %t, %v; want %t", a, got, err, want)
		}
	}
}

// A flood of tokens that nobody knows fills its own lane, and not that of those who are known.
func TestGarbageDoesNotHoldUpTheKnown(t *testing.T) {
	s := newServer(t)
	good := s.token
	hang := make(chan struct{})
	r, clock := newReviewer(t, s.config, access.Options{Parallel: 4, ReviewTimeout: 30 * time.Second})
	known := access.NewToken("known")
	if _, err := r.Authenticate(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	s.set(func() {
		s.token = func(token string) authenticationv1.TokenReviewStatus {
			if token == "known" {
				return good(token)
			}
			s.mu.Unlock()
			<-hang
			s.mu.Lock()
			return authenticationv1.TokenReviewStatus{}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { _, _ = r.Authenticate(ctx, access.NewToken(fmt.Sprintf("garbage%d", i))) })
	}
	eventually(t, "the lane of newcomers to be full", func() bool { n, _ := s.counts(); return n == 1+4 })
	quick, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if _, err := r.Authenticate(quick, known); err != nil {
		t.Errorf("the known one waits: %v", err)
	}
	cancel()
	close(hang)
	wg.Wait()
}

func TestOptionsMustAddUp(t *testing.T) {
	cases := map[string]access.Options{
		"negative duration":      {ValidFor: -1},
		"negative bound":         {Parallel: -1},
		"no time for a round":    {StaleAfter: 40 * time.Second},
		"answers older than 60s": {AllowedFor: time.Minute},
	}
	for name, o := range cases {
		if _, err := access.New(&rest.Config{Host: "http://localhost"}, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := access.New(&rest.Config{Host: "http://localhost"}, access.Options{}); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

func TestConfigForHasNothingOfTheCenter(t *testing.T) {
	const secret = "center-secret"
	own := &rest.Config{
		Host: "https://api.example:6443", BearerToken: secret, BearerTokenFile: secret,
		Impersonate:     rest.ImpersonationConfig{UserName: secret, UID: secret, Groups: []string{secret}},
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, ServerName: "api"},
		WrapTransport:   func(rt http.RoundTripper) http.RoundTripper { return rt },
	}
	r, _ := newReviewer(t, own, access.Options{})
	got, err := r.ConfigFor(access.NewToken("callers-own"))
	if err != nil {
		t.Fatal(err)
	}
	if got.BearerToken != "callers-own" || got.Host != own.Host || got.ServerName != "api" {
		t.Errorf("got %v", got)
	}
	got.BearerToken = ""
	if text := fmt.Sprintf("%#v", *got); strings.Contains(text, secret) || got.WrapTransport != nil {
		t.Errorf("it has something of the center: %s", text)
	}
	other, err := r.ConfigFor(access.NewToken("somebody-else"))
	if err != nil || other.BearerToken != "somebody-else" {
		t.Errorf("got %v, %v", other, err)
	}
}
