package authz

import "sync/atomic"

// Stats counts what a Reviewer has done since it was made.
type Stats struct {
	// TokenReviews and AccessReviews are requests to the API server.
	TokenReviews  uint64 `json:"tokenReviews"`
	AccessReviews uint64 `json:"accessReviews"`
	// Cached are questions that were answered from memory, Joined those that waited for a review
	// which somebody else had begun.
	Cached uint64 `json:"cached"`
	Joined uint64 `json:"joined"`
	// Errors are questions without an answer.
	Errors uint64 `json:"errors"`
}

type counters struct {
	tokenReviews, accessReviews, cached, joined, errors atomic.Uint64
}

func (c *counters) count(from resultSource, err error) {
	switch {
	case err != nil:
		c.errors.Add(1)
	case from == fromCache:
		c.cached.Add(1)
	case from == fromInFlight:
		c.joined.Add(1)
	}
}

// Stats returns the counts so far.
func (r *Reviewer) Stats() Stats {
	c := &r.stats
	return Stats{
		TokenReviews: c.tokenReviews.Load(), AccessReviews: c.accessReviews.Load(),
		Cached: c.cached.Load(), Joined: c.joined.Load(), Errors: c.errors.Load(),
	}
}
