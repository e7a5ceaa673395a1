package authz

import "sync/atomic"

// Stats contains the counters of a Reviewer.
type Stats struct {
	// TokenReviews and AccessReviews are requests to the API server.
	TokenReviews  uint64 `json:"tokenReviews"`
	AccessReviews uint64 `json:"accessReviews"`
	// Cached counts lookups served from the cache. Deduplicated counts lookups that waited for a review that
	// another request had started.
	Cached       uint64 `json:"cached"`
	Deduplicated uint64 `json:"deduplicated"`
	// Errors counts failed reviews.
	Errors uint64 `json:"errors"`
}

type counters struct {
	tokenReviews, accessReviews, cached, deduplicated, errors atomic.Uint64
}

func (c *counters) count(from resultSource, err error) {
	switch {
	case err != nil:
		c.errors.Add(1)
	case from == fromCache:
		c.cached.Add(1)
	case from == fromInFlight:
		c.deduplicated.Add(1)
	}
}

// Stats returns the counts so far.
func (r *Reviewer) Stats() Stats {
	c := &r.stats
	return Stats{
		TokenReviews: c.tokenReviews.Load(), AccessReviews: c.accessReviews.Load(),
		Cached: c.cached.Load(), Deduplicated: c.deduplicated.Load(), Errors: c.errors.Load(),
	}
}
