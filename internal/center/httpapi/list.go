package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

// ApplicationList is a page of applications.
type ApplicationList struct {
	Items []ApplicationListItem `json:"items"`
	// Total is the number of matching applications. Counts is that number by health.
	Total  int            `json:"total"`
	Counts map[string]int `json:"counts"`
	// Continue is the token for the next page. Empty on the last page.
	Continue string `json:"continue,omitempty"`
	// Stale are the resources whose informers are not up to date.
	Stale []string `json:"stale,omitempty"`
}

// ApplicationListItem is an application with its first error cause, if the caller is allowed to see the cause.
type ApplicationListItem struct {
	wire.Summary
	Cause *wire.Cause `json:"cause,omitempty"`
}

const (
	defaultPageSize = 50
	maxPageSize     = 500
)

// query contains the parameters of a list request.
type query struct {
	namespace, kind, text string
	health                []string
	sortBy                string
	limit                 int
	after                 string
}

func parseQuery(v url.Values) (query, error) {
	q := query{namespace: v.Get("namespace"), kind: v.Get("kind"), text: strings.ToLower(v.Get("q")), sortBy: v.Get("sort"), limit: defaultPageSize, after: v.Get("continue")}
	if h := v.Get("health"); h != "" {
		q.health = strings.Split(h, ",")
	}
	for _, h := range q.health {
		if !slices.Contains(healthValues, h) {
			return q, fmt.Errorf("unknown health=%s; use one or more of %s, separated by commas", h, strings.Join(healthValues, ","))
		}
	}
	if sortOrders[cmp.Or(q.sortBy, "name")] == nil {
		return q, fmt.Errorf("unknown sort=%s; use name, health, created or since", q.sortBy)
	}
	if l := v.Get("limit"); l != "" {
		n, err := strconv.Atoi(l)
		if err != nil || n < 1 || n > maxPageSize {
			return q, fmt.Errorf("limit=%s must be a number from 1 to %d", l, maxPageSize)
		}
		q.limit = n
	}
	return q, nil
}

func (q query) matches(r *model.Record) bool {
	return (q.namespace == "" || r.Ref.Namespace == q.namespace) && (q.kind == "" || matchesKind(r.Ref.Kind, q.kind)) &&
		(len(q.health) == 0 || slices.Contains(q.health, string(r.Health))) &&
		(q.text == "" || strings.Contains(strings.ToLower(r.Ref.Namespace+"/"+r.Ref.Name), q.text))
}

// matchesKind compares kinds. The API group is optional.
func matchesKind(kind, wanted string) bool {
	return strings.EqualFold(kind, wanted) || strings.EqualFold(appkind.ParseName(kind).Kind, wanted)
}

// healthValues are the health values of applications. A waiting application is Progressing.
var healthValues = []string{string(health.Degraded), string(health.Progressing), string(health.Unknown), string(health.Suspended), string(health.Healthy)}

// severity sorts applications that need attention first.
var severity = map[health.Status]int{health.Degraded: 0, inspect.Waiting: 1, health.Progressing: 2, health.Unknown: 3, health.Suspended: 4, health.Healthy: 5}

// sortOrders are the sort orders of a list. Sorting is stable: equal applications stay sorted by name.
var sortOrders = map[string]func(a, b *model.Record) int{
	"name":    func(*model.Record, *model.Record) int { return 0 },
	"health":  func(a, b *model.Record) int { return cmp.Compare(severity[a.Health], severity[b.Health]) },
	"created": func(a, b *model.Record) int { return b.Created.Compare(a.Created) },
	"since":   func(a, b *model.Record) int { return b.Since.Compare(a.Since) },
}

func (s *Server) listApplications(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	v := s.viewer(r)
	records, err := s.visibleApplications(r, v, q)
	if err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	out := ApplicationList{Items: []ApplicationListItem{}, Total: len(records), Counts: map[string]int{}, Stale: s.staleResources()}
	for _, rec := range records {
		out.Counts[string(rec.Health)]++
	}
	if q.sortBy != "" && q.sortBy != "name" { // records are already sorted by name
		slices.SortStableFunc(records, sortOrders[q.sortBy])
	}
	start := q.startIndex(records)
	page := records[start:min(start+q.limit, len(records))]
	if start+q.limit < len(records) {
		out.Continue = page[len(page)-1].Ref.String()
	}
	if err := v.prefetchScopes(r, s.causeScopes(page)); err != nil {
		authz.WriteAuthError(w, r, err)
		return
	}
	for _, rec := range page {
		out.Items = append(out.Items, ApplicationListItem{Summary: wire.NewSummary(rec.View, rec.Created), Cause: s.visibleCause(v, rec)})
	}
	writeJSON(w, http.StatusOK, out)
}

// startIndex returns the index of the first application after the last one of the previous page. If that one
// was deleted meanwhile, its position is still known when sorting by name. For other sort orders the list
// restarts at the first page.
func (q query) startIndex(all []*model.Record) int {
	last, ok := model.ParseRef(q.after)
	if !ok {
		return 0
	}
	if i := slices.IndexFunc(all, func(r *model.Record) bool { return r.Ref == last }); i >= 0 {
		return i + 1
	}
	if cmp.Or(q.sortBy, "name") != "name" {
		return 0
	}
	if i := slices.IndexFunc(all, func(r *model.Record) bool { return r.Ref.Compare(last) > 0 }); i >= 0 {
		return i
	}
	return len(all)
}

// visibleApplications returns the matching applications that the caller is allowed to see.
func (s *Server) visibleApplications(r *http.Request, v viewer, q query) ([]*model.Record, error) {
	records := s.Model.All()
	matching, required := make([]*model.Record, 0, len(records)), scopeSets{scopesOf: s.Resolver.ApplicationScopes, setByKey: map[model.Ref]int{}}
	setIndex := make([]int, 0, len(records))
	for _, rec := range records {
		if q.matches(rec) {
			matching, setIndex = append(matching, rec), append(setIndex, required.add(rec))
		}
	}
	if err := v.prefetchScopes(r, required.distinct()); err != nil {
		return nil, err
	}
	allowed := make([]bool, len(required.sets))
	for i, scopes := range required.sets {
		allowed[i] = slices.ContainsFunc(scopes, v.allows)
	}
	out := matching[:0]
	for i, rec := range matching {
		if allowed[setIndex[i]] {
			out = append(out, rec)
		}
	}
	return out, nil
}

// scopeSets collects the permissions that applications require, without duplicates: thousands of applications
// share a few kinds and namespaces.
type scopeSets struct {
	scopesOf func(*model.Record) []sse.Scope
	sets     [][]sse.Scope
	setByKey map[model.Ref]int // by kind and namespace
	lastKey  model.Ref
	lastSet  int
}

// add returns the index of the set that an application requires.
func (n *scopeSets) add(rec *model.Record) int {
	key := model.Ref{Kind: rec.Ref.Kind, Namespace: rec.Ref.Namespace}
	if key == n.lastKey { // applications are sorted by namespace
		return n.lastSet
	}
	if !rec.Ref.IsManaged() { // depends on its members
		n.sets = append(n.sets, n.scopesOf(rec))
		return len(n.sets) - 1
	}
	i, ok := n.setByKey[key]
	if !ok {
		i = len(n.sets)
		n.sets = append(n.sets, n.scopesOf(rec))
		n.setByKey[key] = i
	}
	n.lastKey, n.lastSet = key, i
	return i
}

// distinct returns all permissions without duplicates.
func (n *scopeSets) distinct() []sse.Scope {
	var out []sse.Scope
	seen := map[sse.Scope]bool{}
	for _, scopes := range n.sets {
		for _, sc := range scopes {
			if !seen[sc] {
				seen[sc] = true
				out = append(out, sc)
			}
		}
	}
	return out
}

func (s *Server) causeScopes(page []*model.Record) []sse.Scope {
	var out []sse.Scope
	for _, rec := range page {
		if c := firstErrorCause(rec); c != nil {
			out = append(out, s.Resolver.ObjectScope(c.Object))
		}
	}
	return out
}

func firstErrorCause(rec *model.Record) *explain.Cause {
	for i := range rec.Causes {
		if rec.Causes[i].Severity == explain.Error {
			return &rec.Causes[i]
		}
	}
	return nil
}

func (s *Server) visibleCause(v viewer, rec *model.Record) *wire.Cause {
	if c := firstErrorCause(rec); c != nil && v.allowsObject(c.Object) {
		return new(wire.NewCause(*c))
	}
	return nil
}

// staleResources returns the resources whose informers are not up to date.
func (s *Server) staleResources() []string {
	var out []string
	for _, i := range s.Registry.Informers() {
		if i.State == informers.Stale || i.State == informers.Syncing {
			out = append(out, i.Key.String())
		}
	}
	return out
}
