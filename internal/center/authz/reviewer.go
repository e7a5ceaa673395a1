package authz

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// The two kinds of review, as a role names them.
const (
	tokenReviews  = "tokenreviews.authentication.k8s.io"
	accessReviews = "subjectaccessreviews.authorization.k8s.io"
)

// Reviewer asks the API server about tokens and rights. One serves the whole center.
type Reviewer struct {
	options Options
	// anonymousConfig reaches the same API server and has nothing of the center's identity.
	anonymousConfig *rest.Config

	tokenClient  authenticationclient.TokenReviewInterface
	accessClient authorizationclient.SubjectAccessReviewInterface

	tokenCache  *reviewCache[[sha256.Size]byte, identity]
	accessCache *reviewCache[accessKey, struct{}]

	// Tokens that were valid before do not queue behind those nobody knows: whoever sends
	// garbage without end must not close the streams of others.
	knownTokenSlots, unknownTokenSlots, accessReviewSlots semaphore

	stats counters
}

// identity is what a token stands for: a user, or the reason why there is none.
type identity struct {
	user   *User
	reason string
}

// semaphore limits how many reviews are made at once.
type semaphore chan struct{}

func (l semaphore) acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l semaphore) release() { <-l }

// New returns a Reviewer that asks with the rights of config, which it does not change.
func New(config *rest.Config, o Options) (*Reviewer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	reviewConfig := rest.CopyConfig(config)
	// The lanes limit what is asked. The client's own limit, five a second by default, would let
	// reviews of one user wait for those of another.
	reviewConfig.QPS, reviewConfig.RateLimiter = -1, nil
	reviewConfig.ContentType = runtime.ContentTypeProtobuf
	reviewConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(reviewConfig)
	if err != nil {
		return nil, fmt.Errorf("access: make a client for %s: %w", config.Host, err)
	}
	return &Reviewer{
		options:           o,
		anonymousConfig:   anonymousConfig(config),
		tokenClient:       client.AuthenticationV1().TokenReviews(),
		accessClient:      client.AuthorizationV1().SubjectAccessReviews(),
		tokenCache:        newReviewCache[[sha256.Size]byte, identity](o.Clock, o.MaxTokens),
		accessCache:       newReviewCache[accessKey, struct{}](o.Clock, o.MaxAccessReviews),
		knownTokenSlots:   make(semaphore, o.MaxConcurrentReviews),
		unknownTokenSlots: make(semaphore, o.MaxConcurrentReviews),
		accessReviewSlots: make(semaphore, o.MaxConcurrentReviews),
	}, nil
}

// Authenticate returns the user that a token belongs to. The error wraps [ErrNoToken],
// [ErrInvalidToken] or [ErrReviewFailed].
func (r *Reviewer) Authenticate(ctx context.Context, token Token) (*User, error) {
	a, err := r.authenticate(ctx, token, freshness{r.options.TokenTTL, r.options.InvalidTokenTTL})
	return a.value.user, err
}

func (r *Reviewer) authenticate(ctx context.Context, token Token, fresh freshness) (reviewResult[identity], error) {
	if token.IsEmpty() {
		return reviewResult[identity]{}, noTokenError("the request has none")
	}
	key := token.hash()
	a, from, err := r.tokenCache.get(ctx, key, fresh, func(ctx context.Context) (identity, bool, error) {
		return r.reviewToken(ctx, token, key)
	})
	r.stats.count(from, err)
	if err != nil && !errors.Is(err, ErrReviewFailed) {
		err = reviewFailedError("the token", tokenReviews, err) // this caller did not wait
	}
	if err != nil {
		return reviewResult[identity]{}, err
	}
	if !a.allowed {
		return reviewResult[identity]{}, invalidTokenError(a.value.reason)
	}
	return a, nil
}

func (r *Reviewer) reviewToken(ctx context.Context, token Token, key [sha256.Size]byte) (identity, bool, error) {
	slots := r.unknownTokenSlots
	if r.tokenCache.wasAllowed(key) {
		slots = r.knownTokenSlots
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.ReviewTimeout)
	defer cancel()
	if err := slots.acquire(ctx); err != nil {
		return identity{}, false, reviewFailedError("the token", tokenReviews, err)
	}
	defer slots.release()
	r.stats.tokenReviews.Add(1)
	// At a high verbosity the client logs what it sends, which is the token.
	got, err := r.tokenClient.Create(klog.NewContext(ctx, logr.Discard()), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.text(), Audiences: r.options.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return identity{}, false, reviewFailedError("the token", tokenReviews, err)
	}
	id := r.evaluateToken(&got.Status)
	return id, id.user != nil, nil
}

// evaluateToken takes the answer to a token review as strictly as its documentation allows.
func (r *Reviewer) evaluateToken(s *authenticationv1.TokenReviewStatus) identity {
	switch {
	case !s.Authenticated && strings.Contains(s.Error, "expired"):
		return identity{reason: "it has expired"}
	case !s.Authenticated:
		return identity{reason: "the API server does not accept it"}
	case s.User.Username == "" || s.User.Username == "system:anonymous" ||
		slices.Contains(s.User.Groups, "system:unauthenticated"):
		return identity{reason: "it belongs to nobody"}
	}
	// An authenticator that knows nothing of audiences names none: its tokens were made for the
	// API server, and not for who asks here.
	if len(r.options.Audiences) > 0 && !slices.ContainsFunc(r.options.Audiences, func(a string) bool {
		return slices.Contains(s.Audiences, a)
	}) {
		return identity{reason: "it was not made for " + strings.Join(r.options.Audiences, " or ")}
	}
	return identity{user: NewUser(s.User)}
}
