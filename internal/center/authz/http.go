package authz

import (
	"encoding/json"
	"errors"
	"net/http"

	"k8s.io/klog/v2"
)

// errorResponse is the one shape of errors of the center's API.
type errorResponse struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons in answers to requests that were not let through.
const (
	ReasonUnauthenticated = "Unauthenticated"
	ReasonUnavailable     = "Unavailable"
)

// Middleware lets requests through whose token is valid, with the caller in the context, see
// [FromContext].
//
// The token comes in the header Authorization and nowhere else. A browser sends a cookie by
// itself, also when another site made it ask, so a cookie would need a defence against forged
// requests. A query parameter ends up in the logs of proxies, in the history of the browser and
// in the Referer of the next page. Streams are read with fetch, which can send a header, and not
// with EventSource, which cannot.
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
		req.Header.Del("Authorization") // nobody behind can log it or pass it on by accident
		next.ServeHTTP(w, req)
	})
}

// WriteAuthError answers a request whose caller is not known or could not be checked: with 401 for
// [ErrNoToken] and [ErrInvalidToken], with 503 for everything else.
func WriteAuthError(w http.ResponseWriter, req *http.Request, err error) {
	h := w.Header()
	switch {
	case errors.Is(err, ErrNoToken):
		h.Set("WWW-Authenticate", "Bearer")
		writeError(w, http.StatusUnauthorized, ReasonUnauthenticated, err.Error())
	case errors.Is(err, ErrInvalidToken):
		h.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		writeError(w, http.StatusUnauthorized, ReasonUnauthenticated, err.Error())
	default:
		// The cause names addresses inside the cluster, and whoever asks may be anybody.
		if req.Context().Err() == nil {
			klog.FromContext(req.Context()).Error(err, "Could not check a caller")
		}
		h.Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, ReasonUnavailable,
			"the token and its rights cannot be checked now, so nothing is shown; try again in some seconds, and if it stays so, look at the log of the center")
	}
}

func writeError(w http.ResponseWriter, code int, reason, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// Who has gone does not read it.
	_ = json.NewEncoder(w).Encode(errorResponse{Kind: "Error", Reason: reason, Message: message})
}
