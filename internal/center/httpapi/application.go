package httpapi

import (
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

// writeApplication serves an application without the parts that the caller is not allowed to see.
func (s *Server) writeApplication(w http.ResponseWriter, r *http.Request, trim func(*wire.Application)) {
	rec, v, ok := s.visibleApplication(w, r)
	if !ok {
		return
	}
	if err := v.prefetchScopes(r, s.objectScopes(rec)); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	a := wire.NewApplication(rec.View, v.allowsObject)
	if !rec.Ref.IsManaged() { // its messages come from members, which may be hidden
		clearHiddenMessages(&a)
	}
	trim(&a)
	writeJSON(w, http.StatusOK, a)
}

// objectScopes returns the distinct permissions required to see all objects of an application.
func (s *Server) objectScopes(rec *model.Record) []sse.Scope {
	seen := map[sse.Scope]bool{}
	var out []sse.Scope
	for _, o := range referencedObjects(rec) {
		if sc := s.Resolver.ObjectScope(o); !seen[sc] {
			seen[sc] = true
			out = append(out, sc)
		}
	}
	return out
}

// clearHiddenMessages removes messages that may be about hidden objects. It is for applications without
// an object of their own, whose messages are copied from members.
func clearHiddenMessages(a *wire.Application) {
	if len(a.HiddenKinds) == 0 {
		return
	}
	a.Message = ""
	for i := range a.Components {
		a.Components[i].Message = ""
	}
}

func appendNodes(out []explain.ObjectRef, all []inspect.Node) []explain.ObjectRef {
	for _, n := range all {
		out = appendNodes(append(out, n.Object), n.Children)
	}
	return out
}

// application serves all details of an application.
func (s *Server) application(w http.ResponseWriter, r *http.Request) {
	s.writeApplication(w, r, func(*wire.Application) {})
}

// diagnosis serves an application without its tree.
func (s *Server) diagnosis(w http.ResponseWriter, r *http.Request) {
	s.writeApplication(w, r, func(a *wire.Application) {
		a.Unassigned = nil
		for i := range a.Components {
			a.Components[i].Tree = nil
		}
	})
}

// tree serves an application without causes and changes.
func (s *Server) tree(w http.ResponseWriter, r *http.Request) {
	s.writeApplication(w, r, func(a *wire.Application) {
		a.Causes, a.Changes = []wire.Cause{}, []wire.Change{}
		for i := range a.Components {
			a.Components[i].Causes = nil
		}
	})
}

// History contains the recent activity of an application.
type History struct {
	App wire.Object `json:"app"`
	// Since is the time from which the history is complete. Earlier activity is not known.
	Since   time.Time        `json:"since"`
	Entries []activity.Entry `json:"entries"`
	// Hidden are the kinds whose entries the caller is not allowed to see.
	Hidden []string `json:"hidden,omitempty"`
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	rec, v, ok := s.visibleApplication(w, r)
	if !ok {
		return
	}
	entries, since := s.Activity.List(rec.Ref.String())
	scope := func(e activity.Entry) sse.Scope {
		return s.Resolver.ObjectScope(explain.ObjectRef{Group: e.Object.Group, Kind: e.Object.Kind, Namespace: e.Object.Namespace})
	}
	var scopes []sse.Scope
	for _, e := range entries {
		scopes = append(scopes, scope(e))
	}
	if err := v.prefetchScopes(r, scopes); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	out := History{App: wire.Object{Kind: rec.Ref.Kind, Namespace: rec.Ref.Namespace, Name: rec.Ref.Name}, Since: since.UTC(), Entries: []activity.Entry{}}
	hidden := map[string]bool{}
	for _, e := range entries {
		switch {
		case v.allows(scope(e)), e.Type == activity.HealthChanged && !rec.Ref.IsManaged():
			out.Entries = append(out.Entries, e)
		case !hidden[e.Object.Kind]:
			hidden[e.Object.Kind] = true
			out.Hidden = append(out.Hidden, e.Object.Kind)
		}
	}
	writeJSON(w, http.StatusOK, out)
}
