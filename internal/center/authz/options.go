package authz

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// Options says how long answers hold and how much may be asked at once. The zero value of a
// field means its default; the package comment says how the durations add up.
type Options struct {
	// Clock is for tests; nil means the clock of the machine.
	Clock clock.Clock
	// Audiences are those a token must be made for; empty means those of the API server. With
	// others, the caller's token cannot be used for writes and logs, see [Reviewer.ConfigFor].
	Audiences []string

	// TokenTTL is how long a token that was found valid is taken as valid: 30 s.
	TokenTTL time.Duration
	// InvalidTokenTTL is the same for one that was refused: 10 s.
	InvalidTokenTTL time.Duration
	// AccessTTL is how long an answer about a right is kept: 30 s.
	AccessTTL time.Duration
	// MaxTokens and MaxAccessReviews bound what is kept of each; the least used goes first. 10,000
	// tokens and 50,000 answers.
	MaxTokens, MaxAccessReviews int

	// ReviewTimeout bounds one review: 10 s.
	ReviewTimeout time.Duration
	// MaxConcurrentReviews is how many reviews the API server gets at once: 16 about tokens, 16 about rights.
	// One Sight uses at most half of the latter.
	MaxConcurrentReviews int

	// RecheckInterval is how often an open stream is checked again: 30 s.
	RecheckInterval time.Duration
	// MaxSharedAge is how old an answer may be that an open stream takes from another one: 10 s.
	MaxSharedAge time.Duration
	// StaleAfter is the age at which a yes is none any more: 60 s.
	StaleAfter time.Duration
	// RetryInterval is how soon a failed check is repeated: 5 s.
	RetryInterval time.Duration
	// DecisionTimeout bounds how long [Sight.Sees] waits for a scope nobody prefetched: 2 s.
	DecisionTimeout time.Duration
	// DeniedPerRecheck bounds how many refused scopes are asked about again in a round: 200.
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
			return fmt.Errorf("access: duration %s is negative; leave it out for the default", d)
		}
	}
	for _, n := range []int{o.MaxTokens, o.MaxAccessReviews, o.MaxConcurrentReviews, o.DeniedPerRecheck} {
		if n < 0 {
			return fmt.Errorf("access: bound %d is negative; leave it out for the default", n)
		}
	}
	if o.recheckTimeout() <= 0 {
		return fmt.Errorf("access: StaleAfter %s leaves no time for a round after RecheckEvery %s and SharedFor %s; make it longer",
			o.StaleAfter, o.RecheckInterval, o.MaxSharedAge)
	}
	if o.TokenTTL >= o.StaleAfter || o.AccessTTL >= o.StaleAfter {
		return errors.New("access: ValidFor and AllowedFor must be shorter than StaleAfter, or single requests would see longer than streams")
	}
	return nil
}

// recheckTimeout is what MaxSharedAge and RecheckInterval leave of StaleAfter.
func (o *Options) recheckTimeout() time.Duration {
	return o.StaleAfter - o.RecheckInterval - o.MaxSharedAge
}
