package access

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

	// ValidFor is how long a token that was found valid is taken as valid: 30 s.
	ValidFor time.Duration
	// InvalidFor is the same for one that was refused: 10 s.
	InvalidFor time.Duration
	// AllowedFor is how long an answer about a right is kept: 30 s.
	AllowedFor time.Duration
	// MaxTokens and MaxAnswers bound what is kept of each; the least used goes first. 10,000
	// tokens and 50,000 answers.
	MaxTokens, MaxAnswers int

	// ReviewTimeout bounds one review: 10 s.
	ReviewTimeout time.Duration
	// Parallel is how many reviews the API server gets at once: 16 about tokens, 16 about rights.
	// One Sight uses at most half of the latter.
	Parallel int

	// RecheckEvery is how often an open stream is checked again: 30 s.
	RecheckEvery time.Duration
	// SharedFor is how old an answer may be that an open stream takes from another one: 10 s.
	SharedFor time.Duration
	// StaleAfter is the age at which a yes is none any more: 60 s.
	StaleAfter time.Duration
	// RetryEvery is how soon a failed check is repeated: 5 s.
	RetryEvery time.Duration
	// DecideWithin bounds how long [Sight.Sees] waits for a scope nobody prefetched: 2 s.
	DecideWithin time.Duration
	// NoesPerRound bounds how many refused scopes are asked about again in a round: 200.
	NoesPerRound int
}

func (o Options) withDefaults() (Options, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.ValidFor = cmp.Or(o.ValidFor, 30*time.Second)
	o.InvalidFor = cmp.Or(o.InvalidFor, 10*time.Second)
	o.AllowedFor = cmp.Or(o.AllowedFor, 30*time.Second)
	o.MaxTokens = cmp.Or(o.MaxTokens, 10_000)
	o.MaxAnswers = cmp.Or(o.MaxAnswers, 50_000)
	o.ReviewTimeout = cmp.Or(o.ReviewTimeout, 10*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 16)
	o.RecheckEvery = cmp.Or(o.RecheckEvery, 30*time.Second)
	o.SharedFor = cmp.Or(o.SharedFor, 10*time.Second)
	o.StaleAfter = cmp.Or(o.StaleAfter, time.Minute)
	o.RetryEvery = cmp.Or(o.RetryEvery, 5*time.Second)
	o.DecideWithin = cmp.Or(o.DecideWithin, 2*time.Second)
	o.NoesPerRound = cmp.Or(o.NoesPerRound, 200)
	return o, o.check()
}

func (o *Options) check() error {
	for _, d := range []time.Duration{
		o.ValidFor, o.InvalidFor, o.AllowedFor, o.ReviewTimeout, o.RecheckEvery, o.SharedFor, o.StaleAfter,
		o.RetryEvery, o.DecideWithin,
	} {
		if d < 0 {
			return fmt.Errorf("access: duration %s is negative; leave it out for the default", d)
		}
	}
	for _, n := range []int{o.MaxTokens, o.MaxAnswers, o.Parallel, o.NoesPerRound} {
		if n < 0 {
			return fmt.Errorf("access: bound %d is negative; leave it out for the default", n)
		}
	}
	if o.roundTimeout() <= 0 {
		return fmt.Errorf("access: StaleAfter %s leaves no time for a round after RecheckEvery %s and SharedFor %s; make it longer",
			o.StaleAfter, o.RecheckEvery, o.SharedFor)
	}
	if o.ValidFor >= o.StaleAfter || o.AllowedFor >= o.StaleAfter {
		return errors.New("access: ValidFor and AllowedFor must be shorter than StaleAfter, or single requests would see longer than streams")
	}
	return nil
}

// roundTimeout is what SharedFor and RecheckEvery leave of StaleAfter.
func (o *Options) roundTimeout() time.Duration { return o.StaleAfter - o.RecheckEvery - o.SharedFor }
