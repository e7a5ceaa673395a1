package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// errorResponse is the body of every error response.
type errorResponse struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func writeError(w http.ResponseWriter, code int, reason, message string) {
	writeJSON(w, code, errorResponse{Kind: "Error", Reason: reason, Message: message})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // fails only if the client has disconnected
}

// viewer checks which objects the caller is allowed to see.
type viewer struct {
	*authz.Viewer
	server *Server
}

func (s *Server) viewer(r *http.Request) viewer {
	user, _, _ := authz.FromContext(r.Context())
	return viewer{s.Reviewer.ViewerFor(r.Context(), user), s}
}

// prefetchScopes reviews several permissions concurrently.
func (v viewer) prefetchScopes(r *http.Request, scopes []sse.Scope) error {
	all := make([]authz.Scope, 0, len(scopes))
	for _, sc := range scopes {
		all = append(all, authz.Scope(sc))
	}
	return v.Prefetch(r.Context(), all)
}

func (v viewer) allows(sc sse.Scope) bool { return v.Allows(authz.Scope(sc)) }

func (v viewer) allowsObject(o explain.ObjectRef) bool {
	return v.allows(v.server.Resolver.ObjectScope(o))
}

func (v viewer) allowsAny(scopes []sse.Scope) bool { return allowsAny(v.Viewer, scopes) }

// allowsAny reports whether the user has any of the permissions.
func allowsAny(s *authz.Viewer, scopes []sse.Scope) bool {
	return slices.ContainsFunc(scopes, func(sc sse.Scope) bool { return s.Allows(authz.Scope(sc)) })
}

// visibleApplication returns the application of a request. It writes the same 404 response for an application
// that does not exist and for one that the caller is not allowed to see.
func (s *Server) visibleApplication(w http.ResponseWriter, r *http.Request) (*model.Record, viewer, bool) {
	ref := model.Ref{Kind: r.PathValue("kind"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	rec, v := s.Model.Get(ref), s.viewer(r)
	if rec != nil {
		scopes := s.Resolver.ApplicationScopes(rec)
		if err := v.prefetchScopes(r, scopes); err != nil {
			authz.WriteAuthError(w, r, err)
			return nil, v, false
		}
		if v.allowsAny(scopes) {
			return rec, v, true
		}
	}
	writeError(w, http.StatusNotFound, "NotFound",
		ref.Kind+" "+ref.Namespace+"/"+ref.Name+" does not exist or you are not allowed to see it; "+
			"list applications with GET /api/v1/applications")
	return nil, v, false
}

// referencedObjects returns all objects that a view refers to.
func referencedObjects(rec *model.Record) []explain.ObjectRef {
	var out []explain.ObjectRef
	add := func(causes []explain.Cause) {
		for _, c := range causes {
			out = append(out, c.Object)
		}
	}
	add(rec.Causes)
	for _, c := range rec.Changes {
		out = append(out, c.Object)
	}
	for _, c := range rec.Components {
		add(c.Causes)
		out = appendNodes(out, c.Tree)
	}
	return appendNodes(out, rec.Unassigned)
}

// writeStreamError writes an error of the hub.
func writeStreamError(w http.ResponseWriter, r *http.Request, err error) {
	var limit *sse.LimitError
	switch {
	case errors.As(err, &limit) && limit.Topics > 0:
		writeError(w, http.StatusBadRequest, "TooManyTopics", err.Error())
	case errors.As(err, &limit) && limit.User != "":
		w.Header().Set("Retry-After", "10")
		writeError(w, http.StatusTooManyRequests, "TooManyStreams", err.Error())
	case errors.As(err, &limit), errors.Is(err, sse.ErrClosed):
		w.Header().Set("Retry-After", "2")
		writeError(w, http.StatusServiceUnavailable, "Unavailable", err.Error())
	case r.Context().Err() != nil:
	default:
		writeError(w, http.StatusBadRequest, "BadRequest", err.Error())
	}
}
