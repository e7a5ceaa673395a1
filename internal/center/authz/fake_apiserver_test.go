package authz_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

// fakeAPIServer simulates a misbehaving API server. Other tests use a real API server.
type fakeAPIServer struct {
	mu                sync.Mutex
	down              *metav1.Status // response to all requests if set
	accessReviewsOnly bool           // applies down only to access reviews
	hang              chan struct{}  // if set, requests block until it is closed
	reviewToken       func(string) authenticationv1.TokenReviewStatus
	reviewAccess      func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus

	tokenReviews, accessReviews, hanging int

	config *rest.Config
}

func newFakeAPIServer(t testing.TB) *fakeAPIServer {
	t.Helper()
	s := &fakeAPIServer{
		reviewToken: func(string) authenticationv1.TokenReviewStatus {
			return authenticationv1.TokenReviewStatus{
				Authenticated: true, User: authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"system:authenticated"}},
			}
		},
		reviewAccess: func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{}
		},
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.config = &rest.Config{Host: h.URL}
	return s
}

// set changes how it behaves.
func (s *fakeAPIServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeAPIServer) counts() (tokens, rights int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokenReviews, s.accessReviews
}

func (s *fakeAPIServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	hang, down, accessReviewsOnly := s.hang, s.down, s.accessReviewsOnly
	s.mu.Unlock()
	if hang != nil {
		s.set(func() { s.hanging++ })
		select {
		case <-hang:
		case <-req.Context().Done():
			return
		}
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var response any
	code := http.StatusCreated
	switch o := o.(type) {
	case *authenticationv1.TokenReview:
		s.tokenReviews++
		o.Status = s.reviewToken(o.Spec.Token)
		o.APIVersion, o.Kind = "authentication.k8s.io/v1", "TokenReview"
		response = o
	case *authorizationv1.SubjectAccessReview:
		s.accessReviews++
		o.Status = s.reviewAccess(o.Spec)
		o.APIVersion, o.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		response = o
	}
	review, isTokenReview := o.(*authenticationv1.TokenReview)
	if down != nil && (!accessReviewsOnly || !isTokenReview) {
		down := *down
		if isTokenReview {
			down.Message += " " + review.Spec.Token // as a careless webhook could do
		}
		response, code = down, int(down.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(response)
}

func apiStatus(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "rejected by the test",
	}
}

// newReviewer returns a Reviewer with a fake clock.
func newReviewer(t testing.TB, config *rest.Config, o authz.Options) (*authz.Reviewer, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if o.Clock == nil {
		o.Clock = clock
	}
	r, err := authz.New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return r, clock
}

// eventually polls, because re-checks run in the background.
func eventually(t testing.TB, description string, ok func() bool) {
	t.Helper()
	poll := func(context.Context) (bool, error) { return ok(), nil }
	if err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, 10*time.Second, true, poll); err != nil {
		t.Fatalf("waited 10 s for: %s", description)
	}
}

func signaled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
