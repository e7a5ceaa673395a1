package access

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
	// anonymous reaches the same API server and has nothing of the center's identity.
	anonymous *rest.Config

	tokens authenticationclient.TokenReviewInterface
	rights authorizationclient.SubjectAccessReviewInterface

	known     *memo[[sha256.Size]byte, identity]
	questions *memo[question, struct{}]

	// Tokens that were valid before do not queue behind those nobody knows: whoever sends
	// garbage without end must not close the streams of others.
	regulars, newcomers, reviews lane

	stats counters
}

// identity is what a token stands for: a user, or the reason why there is none.
type identity struct {
	user *User
	why  string
}

// lane limits how many reviews are made at once.
type lane chan struct{}

func (l lane) enter(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lane) exit() { <-l }

// New returns a Reviewer that asks with the rights of config, which it does not change.
func New(config *rest.Config, o Options) (*Reviewer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	// The lanes limit what is asked. The client's own limit, five a second by default, would let
	// reviews of one user wait for those of another.
	own.QPS, own.RateLimiter = -1, nil
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("access: make a client for %s: %w", config.Host, err)
	}
	return &Reviewer{
		options:   o,
		anonymous: anonymous(config),
		tokens:    client.AuthenticationV1().TokenReviews(),
		rights:    client.AuthorizationV1().SubjectAccessReviews(),
		known:     newMemo[[sha256.Size]byte, identity](o.Clock, o.MaxTokens),
		questions: newMemo[question, struct{}](o.Clock, o.MaxAnswers),
		regulars:  make(lane, o.Parallel),
		newcomers: make(lane, o.Parallel),
		reviews:   make(lane, o.Parallel),
	}, nil
}

// Authenticate returns the user that a token belongs to. The error wraps [ErrNoToken],
// [ErrNotValid] or [ErrCannotCheck].
func (r *Reviewer) Authenticate(ctx context.Context, token Token) (*User, error) {
	a, err := r.authenticate(ctx, token, freshness{r.options.ValidFor, r.options.InvalidFor})
	return a.value.user, err
}

func (r *Reviewer) authenticate(ctx context.Context, token Token, fresh freshness) (answer[identity], error) {
	if token.Missing() {
		return answer[identity]{}, noToken("the request has none")
	}
	key := token.hash()
	a, from, err := r.known.get(ctx, key, fresh, func(ctx context.Context) (identity, bool, error) {
		return r.reviewToken(ctx, token, key)
	})
	r.stats.count(from, err)
	if err != nil && !errors.Is(err, ErrCannotCheck) {
		err = cannotCheck("the token", tokenReviews, err) // this caller did not wait
	}
	if err != nil {
		return answer[identity]{}, err
	}
	if !a.yes {
		return answer[identity]{}, notValid(a.value.why)
	}
	return a, nil
}

func (r *Reviewer) reviewToken(ctx context.Context, token Token, key [sha256.Size]byte) (identity, bool, error) {
	lane := r.newcomers
	if r.known.wasYes(key) {
		lane = r.regulars
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.ReviewTimeout)
	defer cancel()
	if err := lane.enter(ctx); err != nil {
		return identity{}, false, cannotCheck("the token", tokenReviews, err)
	}
	defer lane.exit()
	r.stats.tokenReviews.Add(1)
	// At a high verbosity the client logs what it sends, which is the token.
	got, err := r.tokens.Create(klog.NewContext(ctx, logr.Discard()), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.text(), Audiences: r.options.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return identity{}, false, cannotCheck("the token", tokenReviews, err)
	}
	id := r.judge(&got.Status)
	return id, id.user != nil, nil
}

// judge takes the answer to a token review as strictly as its documentation allows.
func (r *Reviewer) judge(s *authenticationv1.TokenReviewStatus) identity {
	switch {
	case !s.Authenticated && strings.Contains(s.Error, "expired"):
		return identity{why: "it has expired"}
	case !s.Authenticated:
		return identity{why: "the API server does not accept it"}
	case s.User.Username == "" || s.User.Username == "system:anonymous" ||
		slices.Contains(s.User.Groups, "system:unauthenticated"):
		return identity{why: "it belongs to nobody"}
	}
	// An authenticator that knows nothing of audiences names none: its tokens were made for the
	// API server, and not for who asks here.
	if len(r.options.Audiences) > 0 && !slices.ContainsFunc(r.options.Audiences, func(a string) bool {
		return slices.Contains(s.Audiences, a)
	}) {
		return identity{why: "it was not made for " + strings.Join(r.options.Audiences, " or ")}
	}
	return identity{user: NewUser(s.User)}
}
