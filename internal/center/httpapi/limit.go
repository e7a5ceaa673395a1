package httpapi

import (
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/fairqueue"
)

// Limits of concurrent requests. Streams and logs have their own limits. A request can wait for access reviews for
// seconds, so the total is much larger than the share of a tenant.
const (
	maxRequests, maxRequestsPerTenant, maxQueuedRequests = 1024, 2, 256
)

// limited runs a handler when the tenant of the caller has a free slot.
func (s *Server) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := authz.FromContext(r.Context())
		tenant := user.Tenant()
		switch err := s.requestSlots.Acquire(r.Context(), tenant); {
		case errors.Is(err, fairqueue.ErrQueueFull):
			w.Header().Set("Retry-After", "5")
			writeError(w, http.StatusTooManyRequests, "TooManyRequests", tenant+" has too many waiting requests; try again in a few seconds, with fewer requests at the same time")
			return
		case err != nil: // the client has disconnected
			return
		}
		defer s.requestSlots.Release(tenant)
		next(w, r)
	}
}
