package web

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// Found are objects that use something.
type Found struct {
	Items []FoundItem `json:"items"`
	// More says that there are more than were told.
	More bool `json:"more,omitempty"`
}

// FoundItem is an object, and the applications that it belongs to.
type FoundItem struct {
	answer.Object
	Applications []answer.Object `json:"applications,omitempty"`
}

// maxFound is how many objects are told.
const maxFound = 500

// searches are what can be looked for, by the name of the parameter.
var searches = map[string]func(namespace, value string) store.Term{
	"image": func(_, v string) store.Term { return store.Term{Field: model.ByImage, Value: v} },
	"node":  func(_, v string) store.Term { return store.Term{Field: model.ByNode, Value: v} },
	"label": func(_, v string) store.Term { return store.Term{Field: model.ByLabel, Value: v} },
	"secret": func(ns, v string) store.Term {
		return store.Term{Field: model.ByReference, Value: "Secret/" + ns + "/" + v}
	},
	"configmap": func(ns, v string) store.Term {
		return store.Term{Field: model.ByReference, Value: "ConfigMap/" + ns + "/" + v}
	},
	"claim": func(ns, v string) store.Term {
		return store.Term{Field: model.ByReference, Value: "PersistentVolumeClaim/" + ns + "/" + v}
	},
}

// find answers who uses an image, a node, a Secret, a ConfigMap or a claim, or has a label.
func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	namespace := values.Get("namespace")
	var entries []*store.Entry
	searched := false
	for name, term := range searches {
		value := values.Get(name)
		if value == "" {
			continue
		}
		if namespace == "" && (name == "secret" || name == "configmap" || name == "claim") {
			fail(w, http.StatusBadRequest, "BadRequest", name+"="+value+" needs the namespace that it is in; add &namespace=NAME")
			return
		}
		found := s.Store.Find(term(namespace, value))
		if searched {
			found = slices.DeleteFunc(found, func(e *store.Entry) bool { return !slices.Contains(entries, e) })
		}
		entries, searched = found, true
	}
	if !searched {
		fail(w, http.StatusBadRequest, "BadRequest", "nothing to look for; use one of image, node, label (KEY=VALUE), secret, configmap or claim, and namespace")
		return
	}
	entries = slices.DeleteFunc(entries, func(e *store.Entry) bool { return namespace != "" && e.Namespace != namespace })
	slices.SortFunc(entries, store.Compare)
	s.tellFound(w, r, entries)
}

func (s *Server) tellFound(w http.ResponseWriter, r *http.Request, entries []*store.Entry) {
	v := s.sight(r)
	scope := func(e *store.Entry) hub.Scope {
		return s.Rights.Object(explain.Object{Group: e.Kind().Group, Kind: e.Kind().Kind, Namespace: e.Namespace})
	}
	var scopes []hub.Scope
	for _, e := range entries {
		if sc := scope(e); !slices.Contains(scopes, sc) {
			scopes = append(scopes, sc)
		}
	}
	if err := v.decide(r, scopes); err != nil {
		access.Refuse(w, r, err)
		return
	}
	out := Found{Items: []FoundItem{}}
	for _, e := range entries {
		if !v.sees(scope(e)) {
			continue
		}
		if len(out.Items) == maxFound {
			out.More = true
			break
		}
		o, err := meta.Accessor(e.Object)
		if err != nil {
			continue
		}
		item := FoundItem{Object: answer.Object{Group: e.Kind().Group, Kind: e.Kind().Kind, Namespace: e.Namespace, Name: e.Name, UID: string(o.GetUID())}}
		for _, ref := range s.Model.Of(e) {
			if rec := s.Model.Get(ref); rec != nil && v.any(s.Rights.Application(rec)) {
				item.Applications = append(item.Applications, answer.Object{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
			}
		}
		out.Items = append(out.Items, item)
	}
	write(w, http.StatusOK, out)
}
