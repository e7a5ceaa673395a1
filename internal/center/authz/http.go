package authz

import (
	"encoding/json"
	"errors"
	"net/http"

	"k8s.io/klog/v2"
)

// errorResponse is the body of every error response of the center's API.
type errorResponse struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons of rejected requests.
const (
	ReasonUnauthenticated = "Unauthenticated"
	ReasonUnavailable     = "Unavailable"
)

// Middleware rejects requests without a valid token. It adds the caller to the context of other requests;
// see [FromContext].
//
// Only the Authorization header is accepted. A browser sends cookies automatically, also for requests from
// other sites, so a cookie would need CSRF protection. A query parameter would appear in proxy logs, in the
// browser history and in the Referer header. Clients read streams with fetch, because EventSource cannot
// send headers.
func (r *Reviewer) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, err := ParseHeader(req.Header.Values("Authorization"))
		if err != nil {
			WriteAuthError(w, req, err)
			return
		}
		user, err := r.Authenticate(req.Context(), token)
		if err != nil {
			WriteAuthError(w, req, err)
			return
		}
		req = req.Clone(NewContext(req.Context(), user, token))
		req.Header.Del("Authorization") // later handlers must not log or forward it
		next.ServeHTTP(w, req)
	})
}

// WriteAuthError rejects a request: with 401 for [ErrNoToken] and [ErrInvalidToken], and with 503 for all
// other errors. It closes connections of unauthenticated clients, because connections are limited.
func WriteAuthError(w http.ResponseWriter, req *http.Request, err error) {
	h := w.Header()
	switch {
	case errors.Is(err, ErrNoToken):
		h.Set("Connection", "close")
		h.Set("WWW-Authenticate", "Bearer")
		writeError(w, http.StatusUnauthorized, ReasonUnauthenticated, err.Error())
	case errors.Is(err, ErrInvalidToken):
		h.Set("Connection", "close")
		h.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		writeError(w, http.StatusUnauthorized, ReasonUnauthenticated, err.Error())
	default:
		// The cause contains addresses inside the cluster, and the caller is not authenticated.
		if req.Context().Err() == nil {
			klog.FromContext(req.Context()).Error(err, "Could not review the access of a caller")
		}
		h.Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, ReasonUnavailable,
			"the token and its permissions cannot be checked now; try again in a few seconds; if the error persists, check the log of the center")
	}
}

func writeError(w http.ResponseWriter, code int, reason, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// This fails only if the client has disconnected.
	_ = json.NewEncoder(w).Encode(errorResponse{Kind: "Error", Reason: reason, Message: message})
}
