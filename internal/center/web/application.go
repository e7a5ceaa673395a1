package web

import (
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/diary"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// tell answers with what the caller may see of an application.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, shape func(*answer.Application)) {
	rec, v, ok := s.one(w, r)
	if !ok {
		return
	}
	if err := v.decide(r, s.scopes(rec)); err != nil {
		access.Refuse(w, r, err)
		return
	}
	a := answer.Of(rec.View, v.object)
	if !rec.Ref.IsOurs() { // who says it is seen, by those who may
		hideWords(&a)
	}
	shape(&a)
	write(w, http.StatusOK, a)
}

// scopes are the rights that are needed to see everything of an application, each once.
func (s *Server) scopes(rec *model.Record) []hub.Scope {
	seen := map[hub.Scope]bool{}
	var out []hub.Scope
	for _, o := range objects(rec) {
		if sc := s.Rights.Object(o); !seen[sc] {
			seen[sc] = true
			out = append(out, sc)
		}
	}
	return out
}

// hideWords takes the sentences of what is hidden from an application that has no object of its
// own to say them.
func hideWords(a *answer.Application) {
	if len(a.Hidden) == 0 {
		return
	}
	a.Message = ""
	for i := range a.Components {
		a.Components[i].Message = ""
	}
}

func nodes(out []explain.Object, all []view.Node) []explain.Object {
	for _, n := range all {
		out = nodes(append(out, n.Object), n.Children)
	}
	return out
}

// application is everything about one.
func (s *Server) application(w http.ResponseWriter, r *http.Request) {
	s.tell(w, r, func(*answer.Application) {})
}

// why is an application without its tree.
func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	s.tell(w, r, func(a *answer.Application) {
		a.Rest = nil
		for i := range a.Components {
			a.Components[i].Tree = nil
		}
	})
}

// tree is an application without causes and changes.
func (s *Server) tree(w http.ResponseWriter, r *http.Request) {
	s.tell(w, r, func(a *answer.Application) {
		a.Causes, a.Changes = []answer.Cause{}, []answer.Change{}
		for i := range a.Components {
			a.Components[i].Causes = nil
		}
	})
}

// History is what happened to an application lately.
type History struct {
	App answer.Object `json:"app"`
	// Since is how far back this reaches: what was before is not known.
	Since   time.Time     `json:"since"`
	Entries []diary.Entry `json:"entries"`
	// Hidden are kinds of which something was left out.
	Hidden []string `json:"hidden,omitempty"`
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	rec, v, ok := s.one(w, r)
	if !ok {
		return
	}
	entries, since := s.Diary.Read(rec.Ref.String())
	scope := func(e diary.Entry) hub.Scope {
		return s.Rights.Object(explain.Object{Group: e.Object.Group, Kind: e.Object.Kind, Namespace: e.Object.Namespace})
	}
	var scopes []hub.Scope
	for _, e := range entries {
		scopes = append(scopes, scope(e))
	}
	if err := v.decide(r, scopes); err != nil {
		access.Refuse(w, r, err)
		return
	}
	out := History{App: answer.Object{Kind: rec.Ref.Kind, Namespace: rec.Ref.Namespace, Name: rec.Ref.Name}, Since: since.UTC(), Entries: []diary.Entry{}}
	hidden := map[string]bool{}
	for _, e := range entries {
		switch {
		case v.sees(scope(e)), e.What == diary.Health && !rec.Ref.IsOurs():
			out.Entries = append(out.Entries, e)
		case !hidden[e.Object.Kind]:
			hidden[e.Object.Kind] = true
			out.Hidden = append(out.Hidden, e.Object.Kind)
		}
	}
	write(w, http.StatusOK, out)
}
