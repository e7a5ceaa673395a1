package authz_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

func TestMiddleware(t *testing.T) {
	type answer struct{ Kind, Reason, Message string }
	cases := map[string]struct {
		header    http.Header
		target    string
		down      bool
		wantCode  int
		wantAuth  string
		wantRetry string
		wantBody  answer // the message is a substring
	}{
		"valid": {header: http.Header{"Authorization": {"Bearer good"}}, wantCode: 200},
		"none": {
			wantCode: 401, wantAuth: "Bearer",
			wantBody: answer{"Error", "Unauthenticated", "kubectl create token"},
		},
		"invalid token": {
			header: http.Header{"Authorization": {"Bearer bad"}}, wantCode: 401, wantAuth: `Bearer error="invalid_token"`,
			wantBody: answer{"Error", "Unauthenticated", "kubectl create token"},
		},
		"token in the query": {
			target: "/?token=good&access_token=good", wantCode: 401, wantAuth: "Bearer",
			wantBody: answer{"Error", "Unauthenticated", "no Authorization header"},
		},
		"token in a cookie": {
			header: http.Header{"Cookie": {"token=good; Authorization=good"}}, wantCode: 401, wantAuth: "Bearer",
			wantBody: answer{"Error", "Unauthenticated", "no Authorization header"},
		},
		"token in a proxy header": {
			header:   http.Header{"X-Forwarded-User": {"alice"}, "X-Remote-User": {"alice"}, "Proxy-Authorization": {"Bearer good"}},
			wantCode: 401, wantAuth: "Bearer",
			wantBody: answer{"Error", "Unauthenticated", "no Authorization header"},
		},
		"failed review": {
			header: http.Header{"Authorization": {"Bearer good"}}, down: true, wantCode: 503, wantRetry: "5",
			wantBody: answer{"Error", "Unavailable", "try again"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPIServer(t)
			good := s.reviewToken
			s.reviewToken = func(token string) authenticationv1.TokenReviewStatus {
				if token == "good" {
					return good(token)
				}
				return authenticationv1.TokenReviewStatus{}
			}
			if tc.down {
				s.down = apiStatus(500, "InternalError")
			}
			r, _ := newReviewer(t, s.config, authz.Options{})
			var reached bool
			h := r.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				reached = true
				user, token, ok := authz.FromContext(req.Context())
				if !ok || user.Name() != "alice" || authz.Reveal(token) != "good" {
					t.Errorf("got caller %v, %t", user, ok)
				}
				if got := req.Header.Get("Authorization"); got != "" {
					t.Error("the handler receives the Authorization header")
				}
			}))
			if tc.target == "" {
				tc.target = "/"
			}
			req := httptest.NewRequest(http.MethodGet, tc.target, nil)
			for k, v := range tc.header {
				req.Header[k] = v
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			got := w.Result()
			if got.StatusCode != tc.wantCode || reached != (tc.wantCode == 200) {
				t.Errorf("got code %d, reached the handler: %t", got.StatusCode, reached)
			}
			if diff := cmp.Diff(tc.wantAuth, got.Header.Get("WWW-Authenticate")); diff != "" {
				t.Errorf("WWW-Authenticate (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRetry, got.Header.Get("Retry-After")); diff != "" {
				t.Errorf("Retry-After (-want +got):\n%s", diff)
			}
			if tc.wantCode == 200 {
				return
			}
			body, _ := io.ReadAll(got.Body)
			var a answer
			if err := json.Unmarshal(body, &a); err != nil || got.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("got %s (%v)", body, err)
			}
			if !strings.Contains(a.Message, tc.wantBody.Message) {
				t.Errorf("got message %q, want %q in it", a.Message, tc.wantBody.Message)
			}
			a.Message = tc.wantBody.Message
			if diff := cmp.Diff(tc.wantBody, a); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if strings.Contains(string(body), s.config.Host) || strings.Contains(string(body), "127.0.0.1") {
				t.Errorf("the response contains the address of the API server: %s", body)
			}
		})
	}
}

func TestContextWithoutCaller(t *testing.T) {
	if _, _, ok := authz.FromContext(t.Context()); ok {
		t.Error("the context has a caller")
	}
	if _, _, ok := authz.FromContext(authz.NewContext(t.Context(), nil, authz.NewToken("x"))); ok {
		t.Error("an empty user is accepted as a caller")
	}
}
