package authz

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/internal/center/fairqueue"
)

// The reviews, by the resource names used in roles.
const (
	tokenReviews  = "tokenreviews.authentication.k8s.io"
	accessReviews = "subjectaccessreviews.authorization.k8s.io"
)

// Reviewer reviews tokens and permissions through the API server. The center has one Reviewer.
type Reviewer struct {
	options Options
	// anonymousConfig connects to the same API server without credentials of the center.
	anonymousConfig *rest.Config

	tokenClient  authenticationclient.TokenReviewInterface
	accessClient authorizationclient.SubjectAccessReviewInterface

	tokenCache  *reviewCache[[sha256.Size]byte, identity]
	accessCache *reviewCache[accessKey, struct{}]

	// Tokens that were valid before do not queue behind unknown ones: a flood of invalid tokens must
	// not close the streams of other users.
	knownTokenSlots, unknownTokenSlots *semaphore.Weighted
	accessReviewSlots                  *fairqueue.Slots

	stats counters
}

// identity is the user of a token, or the reason why the token is not valid.
type identity struct {
	user   *User
	reason string
}

// New returns a Reviewer that creates reviews with the credentials of config. It does not modify config.
func New(config *rest.Config, o Options) (*Reviewer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	reviewConfig := rest.CopyConfig(config)
	// The semaphores limit the reviews. With the client's own rate limit, five per second by default,
	// reviews of one user would wait for those of another.
	reviewConfig.QPS, reviewConfig.RateLimiter = -1, nil
	reviewConfig.ContentType = runtime.ContentTypeProtobuf
	reviewConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(reviewConfig)
	if err != nil {
		return nil, fmt.Errorf("authz: create a client for %s: %w", config.Host, err)
	}
	return &Reviewer{
		options:           o,
		anonymousConfig:   anonymousConfig(config),
		tokenClient:       client.AuthenticationV1().TokenReviews(),
		accessClient:      client.AuthorizationV1().SubjectAccessReviews(),
		tokenCache:        newReviewCache[[sha256.Size]byte, identity](o.Clock, o.MaxTokens),
		accessCache:       newReviewCache[accessKey, struct{}](o.Clock, o.MaxAccessReviews),
		knownTokenSlots:   semaphore.NewWeighted(int64(o.MaxConcurrentReviews)),
		unknownTokenSlots: semaphore.NewWeighted(int64(o.MaxConcurrentReviews)),
		accessReviewSlots: fairqueue.NewSlots(o.MaxConcurrentReviews, o.reviewsPerTenant(), math.MaxInt),
	}, nil
}

// Audiences returns the accepted audiences of tokens; none for those of the API server.
func (r *Reviewer) Audiences() []string { return r.options.Audiences }

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
		err = reviewFailedError("the token", tokenReviews, err) // the caller stopped waiting
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
	if err := slots.Acquire(ctx, 1); err != nil {
		return identity{}, false, reviewFailedError("the token", tokenReviews, err)
	}
	defer slots.Release(1)
	r.stats.tokenReviews.Add(1)
	// At a high verbosity the client logs request bodies, which contain the token.
	got, err := r.tokenClient.Create(klog.NewContext(ctx, logr.Discard()), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.text(), Audiences: r.options.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return identity{}, false, reviewFailedError("the token", tokenReviews, err)
	}
	id := r.evaluateToken(&got.Status)
	return id, id.user != nil, nil
}

// evaluateToken returns the identity for a token review. In doubt, it treats the token as invalid.
func (r *Reviewer) evaluateToken(s *authenticationv1.TokenReviewStatus) identity {
	switch {
	case !s.Authenticated && strings.Contains(s.Error, "expired"):
		return identity{reason: "it has expired"}
	case !s.Authenticated:
		return identity{reason: "the API server does not accept it"}
	case s.User.Username == "" || s.User.Username == "system:anonymous" ||
		slices.Contains(s.User.Groups, "system:unauthenticated"):
		return identity{reason: "it belongs to no authenticated user"}
	}
	// An authenticator that is not audience-aware returns no audiences. Its tokens are intended only for the
	// API server.
	if len(r.options.Audiences) > 0 && !slices.ContainsFunc(r.options.Audiences, func(a string) bool {
		return slices.Contains(s.Audiences, a)
	}) {
		return identity{reason: "its audience is not " + strings.Join(r.options.Audiences, " or ")}
	}
	return identity{user: NewUser(s.User)}
}
