package authz

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// Options configures cache durations and concurrency. A zero field means its default; the package comment
// explains how the durations add up.
type Options struct {
	// Clock is for tests. Default: the system clock.
	Clock clock.Clock
	// Audiences are the accepted audiences of a token. Default: the audiences of the API server. With others,
	// the caller's token cannot be used for writes and logs; see [Reviewer.ConfigFor].
	Audiences []string

	// TokenTTL is how long a valid token is cached: 30 s.
	TokenTTL time.Duration
	// InvalidTokenTTL is how long an invalid token is cached: 10 s.
	InvalidTokenTTL time.Duration
	// AccessTTL is how long an access review is cached: 30 s.
	AccessTTL time.Duration
	// MaxTokens and MaxAccessReviews are the sizes of the LRU caches: 10,000 and 50,000.
	MaxTokens, MaxAccessReviews int

	// ReviewTimeout is the timeout of one review: 10 s.
	ReviewTimeout time.Duration
	// MaxConcurrentReviews limits the concurrent reviews of known tokens, of unknown tokens and of
	// access, each: 16. One tenant uses at most an eighth of the access reviews.
	MaxConcurrentReviews int

	// RecheckInterval is how often an open stream is re-checked: 30 s.
	RecheckInterval time.Duration
	// MaxSharedAge is the maximum age of a cached result that an open stream takes: 10 s.
	MaxSharedAge time.Duration
	// StaleAfter is the age at which an allowed result expires: 60 s.
	StaleAfter time.Duration
	// RetryInterval is the delay after a failed re-check: 5 s.
	RetryInterval time.Duration
	// DecisionTimeout limits how long [Viewer.Allows] waits for a scope without a decision: 2 s.
	DecisionTimeout time.Duration
	// DeniedPerRecheck limits the denied scopes of one re-check: 200.
	DeniedPerRecheck int
}

func (o Options) withDefaults() (Options, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.TokenTTL = cmp.Or(o.TokenTTL, 30*time.Second)
	o.InvalidTokenTTL = cmp.Or(o.InvalidTokenTTL, 10*time.Second)
	o.AccessTTL = cmp.Or(o.AccessTTL, 30*time.Second)
	o.MaxTokens = cmp.Or(o.MaxTokens, 10_000)
	o.MaxAccessReviews = cmp.Or(o.MaxAccessReviews, 50_000)
	o.ReviewTimeout = cmp.Or(o.ReviewTimeout, 10*time.Second)
	o.MaxConcurrentReviews = cmp.Or(o.MaxConcurrentReviews, 16)
	o.RecheckInterval = cmp.Or(o.RecheckInterval, 30*time.Second)
	o.MaxSharedAge = cmp.Or(o.MaxSharedAge, 10*time.Second)
	o.StaleAfter = cmp.Or(o.StaleAfter, time.Minute)
	o.RetryInterval = cmp.Or(o.RetryInterval, 5*time.Second)
	o.DecisionTimeout = cmp.Or(o.DecisionTimeout, 2*time.Second)
	o.DeniedPerRecheck = cmp.Or(o.DeniedPerRecheck, 200)
	return o, o.validate()
}

func (o *Options) validate() error {
	for _, d := range []time.Duration{
		o.TokenTTL, o.InvalidTokenTTL, o.AccessTTL, o.ReviewTimeout, o.RecheckInterval, o.MaxSharedAge, o.StaleAfter,
		o.RetryInterval, o.DecisionTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("authz: duration %s is negative; omit it for the default", d)
		}
	}
	for _, n := range []int{o.MaxTokens, o.MaxAccessReviews, o.MaxConcurrentReviews, o.DeniedPerRecheck} {
		if n < 0 {
			return fmt.Errorf("authz: limit %d is negative; omit it for the default", n)
		}
	}
	if o.recheckTimeout() <= 0 {
		return fmt.Errorf("authz: StaleAfter %s leaves no time for a re-check after RecheckInterval %s and MaxSharedAge %s; increase StaleAfter",
			o.StaleAfter, o.RecheckInterval, o.MaxSharedAge)
	}
	if o.TokenTTL >= o.StaleAfter || o.AccessTTL >= o.StaleAfter {
		return errors.New("authz: TokenTTL and AccessTTL must be shorter than StaleAfter; " +
			"otherwise single requests would use older results than streams")
	}
	return nil
}

// reviewsPerTenant is the maximum number of concurrent access reviews of one tenant.
func (o *Options) reviewsPerTenant() int { return max(1, o.MaxConcurrentReviews/8) }

// recheckTimeout is the part of StaleAfter that MaxSharedAge and RecheckInterval leave.
func (o *Options) recheckTimeout() time.Duration {
	return o.StaleAfter - o.RecheckInterval - o.MaxSharedAge
}
