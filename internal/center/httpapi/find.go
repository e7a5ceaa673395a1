package httpapi

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/center/store"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

// FindResult contains the objects that match a search.
type FindResult struct {
	Items []FindResultItem `json:"items"`
	// Truncated is true if there are more matches than Items contains.
	Truncated bool `json:"truncated,omitempty"`
}

// FindResultItem is an object and the applications that it belongs to.
type FindResultItem struct {
	wire.Object
	Applications []wire.Object `json:"applications,omitempty"`
}

// maxFindResults is the maximum number of objects in a result.
const maxFindResults = 500

// findTerms maps query parameters to index terms.
var findTerms = map[string]func(namespace, value string) store.Term{
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

// find serves the objects that use an image, Node, Secret, ConfigMap or PersistentVolumeClaim, or have a label.
func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	namespace := values.Get("namespace")
	var entries []*store.Entry
	searched := false
	for name, term := range findTerms {
		value := values.Get(name)
		if value == "" {
			continue
		}
		if namespace == "" && (name == "secret" || name == "configmap" || name == "claim") {
			writeError(w, http.StatusBadRequest, "BadRequest", name+"="+value+" requires a namespace; add &namespace=NAME")
			return
		}
		found := s.Store.Find(term(namespace, value))
		if searched {
			matchesBefore := sets.New(entries...)
			found = slices.DeleteFunc(found, func(e *store.Entry) bool { return !matchesBefore.Has(e) })
		}
		entries, searched = found, true
	}
	if !searched {
		writeError(w, http.StatusBadRequest, "BadRequest",
			"no search term; use image, node, label (KEY=VALUE), secret, configmap or claim; the last three also require namespace")
		return
	}
	entries = slices.DeleteFunc(entries, func(e *store.Entry) bool { return namespace != "" && e.Namespace != namespace })
	slices.SortFunc(entries, store.Compare)
	s.writeFindResult(w, r, entries)
}

func (s *Server) writeFindResult(w http.ResponseWriter, r *http.Request, entries []*store.Entry) {
	v := s.viewer(r)
	scope := func(e *store.Entry) sse.Scope {
		return s.Resolver.ObjectScope(explain.ObjectRef{Group: e.Kind().Group, Kind: e.Kind().Kind, Namespace: e.Namespace})
	}
	scopes := sets.New[sse.Scope]()
	for _, e := range entries {
		scopes.Insert(scope(e))
	}
	if err := v.prefetchScopes(r, scopes.UnsortedList()); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	out := FindResult{Items: []FindResultItem{}}
	for _, e := range entries {
		if !v.allows(scope(e)) {
			continue
		}
		if len(out.Items) == maxFindResults {
			out.Truncated = true
			break
		}
		o, err := meta.Accessor(e.Object)
		if err != nil {
			continue
		}
		item := FindResultItem{Object: wire.Object{Group: e.Kind().Group, Kind: e.Kind().Kind, Namespace: e.Namespace, Name: e.Name, UID: string(o.GetUID())}}
		for _, ref := range s.Model.ApplicationsOf(e) {
			if rec := s.Model.Get(ref); rec != nil && v.allowsAny(s.Resolver.ApplicationScopes(rec)) {
				item.Applications = append(item.Applications, wire.Object{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
			}
		}
		out.Items = append(out.Items, item)
	}
	writeJSON(w, http.StatusOK, out)
}
