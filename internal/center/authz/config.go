package authz

import "k8s.io/client-go/rest"

// ConfigFor returns access to the API server with the caller's own token and nothing of the
// center's identity: for writes, logs and everything else that the API server should decide and
// its audit log should show as done by the caller.
func (r *Reviewer) ConfigFor(token Token) (*rest.Config, error) {
	if token.IsEmpty() {
		return nil, noTokenError("the request has none") // without a token it would ask as system:anonymous
	}
	c := rest.CopyConfig(r.anonymousConfig)
	c.BearerToken = token.text()
	return c, nil
}

func anonymousConfig(config *rest.Config) *rest.Config {
	c := rest.AnonymousClientConfig(config)
	// A limit that all callers share would let them wait for each other; the API server has one
	// per user.
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	return c
}
