package authz

import "k8s.io/client-go/rest"

// ConfigFor returns a client configuration with the caller's token and no credentials of the center. Use it
// for writes, logs and every other request that the API server authorizes and audits as the caller.
func (r *Reviewer) ConfigFor(token Token) (*rest.Config, error) {
	if token.IsEmpty() {
		return nil, noTokenError("the request has none") // without a token the request would run as system:anonymous
	}
	c := rest.CopyConfig(r.anonymousConfig)
	c.BearerToken = token.text()
	return c, nil
}

func anonymousConfig(config *rest.Config) *rest.Config {
	c := rest.AnonymousClientConfig(config)
	// A shared client-side rate limit would let callers block each other; the API server limits per user.
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	return c
}
