package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// failure is the one shape of errors.
type failure struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	write(w, code, failure{Kind: "Error", Reason: reason, Message: message})
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // who has gone does not read it
}

// sight is what the caller sees, asked of the API server where it is not known.
type sight struct {
	*access.Sight
	server *Server
}

func (s *Server) sight(r *http.Request) sight {
	user, _, _ := access.FromContext(r.Context())
	return sight{s.Reviewer.SightOf(r.Context(), user), s}
}

// decide asks for rights in one go.
func (v sight) decide(r *http.Request, scopes []hub.Scope) error {
	all := make([]access.Scope, 0, len(scopes))
	for _, sc := range scopes {
		all = append(all, access.Scope(sc))
	}
	return v.Prefetch(r.Context(), all)
}

func (v sight) sees(sc hub.Scope) bool { return v.Sees(access.Scope(sc)) }

func (v sight) object(o explain.Object) bool { return v.sees(v.server.Rights.Object(o)) }

func (v sight) any(scopes []hub.Scope) bool { return sees(v.Sight, scopes) }

// sees says whether any of these rights is there.
func sees(s *access.Sight, scopes []hub.Scope) bool {
	return slices.ContainsFunc(scopes, func(sc hub.Scope) bool { return s.Sees(access.Scope(sc)) })
}

// one is the application that a request names, if the caller may see it. Who may not is told what
// one is told about an application that is not there.
func (s *Server) one(w http.ResponseWriter, r *http.Request) (*model.Record, sight, bool) {
	ref := model.Ref{Kind: r.PathValue("kind"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	rec, v := s.Model.Get(ref), s.sight(r)
	if rec != nil {
		scopes := s.Rights.Application(rec)
		if err := v.decide(r, scopes); err != nil {
			access.Refuse(w, r, err)
			return nil, v, false
		}
		if v.any(scopes) {
			return rec, v, true
		}
	}
	fail(w, http.StatusNotFound, "NotFound", "there is no "+ref.Kind+" "+ref.Namespace+"/"+ref.Name+" that you may see; GET /api/v1/applications lists those")
	return nil, v, false
}

// objects are all that a view names.
func objects(rec *model.Record) []explain.Object {
	var out []explain.Object
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
		out = nodes(out, c.Tree)
	}
	return nodes(out, rec.Rest)
}

// refused answers an error of the hub.
func refused(w http.ResponseWriter, r *http.Request, err error) {
	var limit *hub.LimitError
	switch {
	case errors.As(err, &limit) && limit.Topics > 0:
		fail(w, http.StatusBadRequest, "TooManyTopics", err.Error())
	case errors.As(err, &limit) && limit.User != "":
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusTooManyRequests, "TooManyStreams", err.Error())
	case errors.As(err, &limit), errors.Is(err, hub.ErrClosed):
		w.Header().Set("Retry-After", "2")
		fail(w, http.StatusServiceUnavailable, "Unavailable", err.Error())
	case r.Context().Err() != nil:
	default:
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
	}
}
