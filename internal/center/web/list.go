package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/access"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/registry"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// List is a page of applications.
type List struct {
	Items []Item `json:"items"`
	// Total is how many match, and Counts how many of them there are of each health.
	Total  int            `json:"total"`
	Counts map[string]int `json:"counts"`
	// Continue asks for the next page; empty after the last.
	Continue string `json:"continue,omitempty"`
	// Stale are the resources of which not everything is heard now.
	Stale []string `json:"stale,omitempty"`
}

// Item is an application of a list, and why it is not ready, if the caller may see that.
type Item struct {
	answer.Summary
	Why *answer.Cause `json:"why,omitempty"`
}

const (
	defaultPage = 50
	maxPage     = 500
)

// query is what a list is asked for.
type query struct {
	namespace, kind, text string
	health                []string
	order                 string
	limit                 int
	after                 string
}

func parseQuery(v url.Values) (query, error) {
	q := query{namespace: v.Get("namespace"), kind: v.Get("kind"), text: strings.ToLower(v.Get("q")), order: v.Get("sort"), limit: defaultPage, after: v.Get("continue")}
	if h := v.Get("health"); h != "" {
		q.health = strings.Split(h, ",")
	}
	if orders[cmp.Or(q.order, "name")] == nil {
		return q, fmt.Errorf("sort=%s is not known; use name, health, created or since", q.order)
	}
	if l := v.Get("limit"); l != "" {
		n, err := strconv.Atoi(l)
		if err != nil || n < 1 || n > maxPage {
			return q, fmt.Errorf("limit=%s is not a number from 1 to %d", l, maxPage)
		}
		q.limit = n
	}
	return q, nil
}

func (q query) matches(r *model.Record) bool {
	return (q.namespace == "" || r.Ref.Namespace == q.namespace) && (q.kind == "" || strings.EqualFold(r.Ref.Kind, q.kind)) &&
		(len(q.health) == 0 || slices.Contains(q.health, string(r.Health))) &&
		(q.text == "" || strings.Contains(strings.ToLower(r.Ref.Namespace+"/"+r.Ref.Name), q.text))
}

// severity puts what needs somebody first.
var severity = map[health.Status]int{health.Degraded: 0, view.Waiting: 1, health.Progressing: 2, health.Unknown: 3, health.Suspended: 4, health.Healthy: 5}

// orders are how lists can be sorted. What is equal stays in the order of names.
var orders = map[string]func(a, b *model.Record) int{
	"name":    func(*model.Record, *model.Record) int { return 0 },
	"health":  func(a, b *model.Record) int { return cmp.Compare(severity[a.Health], severity[b.Health]) },
	"created": func(a, b *model.Record) int { return b.Created.Compare(a.Created) },
	"since":   func(a, b *model.Record) int { return b.Since.Compare(a.Since) },
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	v := s.sight(r)
	all, err := s.visible(r, v, q)
	if err != nil {
		access.Refuse(w, r, err)
		return
	}
	out := List{Items: []Item{}, Total: len(all), Counts: map[string]int{}, Stale: s.stale()}
	for _, rec := range all {
		out.Counts[string(rec.Health)]++
	}
	if q.order != "" && q.order != "name" { // which they are in
		slices.SortStableFunc(all, orders[q.order])
	}
	begin := q.begin(all)
	page := all[begin:min(begin+q.limit, len(all))]
	if begin+q.limit < len(all) {
		out.Continue = page[len(page)-1].Ref.String()
	}
	if err := v.decide(r, s.whyScopes(page)); err != nil {
		access.Refuse(w, r, err)
		return
	}
	for _, rec := range page {
		out.Items = append(out.Items, Item{Summary: answer.SummaryOf(rec.View, rec.Created), Why: s.firstCause(v, rec)})
	}
	write(w, http.StatusOK, out)
}

// begin is where the page begins: after the application that the last one ended with. One that went
// meanwhile still has its place among names; in another order nobody knows it, and it begins anew.
func (q query) begin(all []*model.Record) int {
	last, ok := model.ParseRef(q.after)
	if !ok {
		return 0
	}
	if i := slices.IndexFunc(all, func(r *model.Record) bool { return r.Ref == last }); i >= 0 {
		return i + 1
	}
	if cmp.Or(q.order, "name") != "name" {
		return 0
	}
	if i := slices.IndexFunc(all, func(r *model.Record) bool { return r.Ref.Compare(last) > 0 }); i >= 0 {
		return i
	}
	return len(all)
}

// visible are the applications that match and that the caller may see.
func (s *Server) visible(r *http.Request, v sight, q query) ([]*model.Record, error) {
	every := s.Model.All()
	all, needs := make([]*model.Record, 0, len(every)), needs{of: s.Rights.Application, known: map[model.Ref]int{}}
	by := make([]int, 0, len(every))
	for _, rec := range every {
		if q.matches(rec) {
			all, by = append(all, rec), append(by, needs.add(rec))
		}
	}
	if err := v.decide(r, needs.scopes()); err != nil {
		return nil, err
	}
	yes := make([]bool, len(needs.all))
	for i, scopes := range needs.all {
		yes[i] = slices.ContainsFunc(scopes, v.sees)
	}
	out := all[:0]
	for i, rec := range all {
		if yes[by[i]] {
			out = append(out, rec)
		}
	}
	return out, nil
}

// needs are the rights that applications need, each once: thousands of ours are of a few kinds in a
// few namespaces.
type needs struct {
	of    func(*model.Record) []hub.Scope
	all   [][]hub.Scope
	known map[model.Ref]int // by kind and namespace
	last  model.Ref
	at    int
}

// add returns which of all an application needs.
func (n *needs) add(rec *model.Record) int {
	place := model.Ref{Kind: rec.Ref.Kind, Namespace: rec.Ref.Namespace}
	if place == n.last { // they come by namespace
		return n.at
	}
	if !rec.Ref.IsOurs() { // depends on what it is made of
		n.all = append(n.all, n.of(rec))
		return len(n.all) - 1
	}
	i, ok := n.known[place]
	if !ok {
		i = len(n.all)
		n.all = append(n.all, n.of(rec))
		n.known[place] = i
	}
	n.last, n.at = place, i
	return i
}

// scopes are all of them.
func (n *needs) scopes() []hub.Scope {
	var out []hub.Scope
	asked := map[hub.Scope]bool{}
	for _, scopes := range n.all {
		for _, sc := range scopes {
			if !asked[sc] {
				asked[sc] = true
				out = append(out, sc)
			}
		}
	}
	return out
}

func (s *Server) whyScopes(page []*model.Record) []hub.Scope {
	var out []hub.Scope
	for _, rec := range page {
		if c := first(rec); c != nil {
			out = append(out, s.Rights.Object(c.Object))
		}
	}
	return out
}

func first(rec *model.Record) *explain.Cause {
	for i := range rec.Causes {
		if rec.Causes[i].Severity == explain.Error {
			return &rec.Causes[i]
		}
	}
	return nil
}

func (s *Server) firstCause(v sight, rec *model.Record) *answer.Cause {
	if c := first(rec); c != nil && v.object(c.Object) {
		return new(answer.CauseOf(*c))
	}
	return nil
}

// stale are the resources of which not everything is heard.
func (s *Server) stale() []string {
	var out []string
	for _, i := range s.Registry.Informers() {
		if i.State == registry.Stale || i.State == registry.Syncing {
			out = append(out, i.Key.String())
		}
	}
	return out
}
