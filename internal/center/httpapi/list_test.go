package httpapi

import (
	"net/url"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

func newRecord(namespace, name string, h health.Status) *model.Record {
	return &model.Record{Ref: model.Ref{Kind: "AppStack", Namespace: namespace, Name: name}, View: inspect.View{Health: h}}
}

func TestPageStartIndex(t *testing.T) {
	all := []*model.Record{newRecord("a", "one", ""), newRecord("a", "two", ""), newRecord("b", "one", "")}
	cases := map[string]struct {
		query query
		want  int
	}{
		"first page":                      {query{}, 0},
		"invalid token":                   {query{after: "x"}, 0},
		"after the first":                 {query{after: "AppStack/a/one"}, 1},
		"after the last":                  {query{after: "AppStack/b/one"}, 3},
		"deleted application":             {query{after: "AppStack/a/other"}, 1},
		"deleted last application":        {query{after: "AppStack/c/one"}, 3},
		"deleted application, by health":  {query{after: "AppStack/a/other", sortBy: "health"}, 0},
		"existing application, by health": {query{after: "AppStack/a/two", sortBy: "health"}, 2},
		"same name and a different kind":  {query{after: "AppService/a/two"}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.query.startIndex(all); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// Managed applications of a kind in a namespace share one set of permissions. Groups have one set each, because
// their permissions depend on their members.
func TestScopesAreRequestedOncePerKindAndNamespace(t *testing.T) {
	group := func(namespace, name string) *model.Record {
		return &model.Record{Ref: model.Ref{Kind: "Group", Namespace: namespace, Name: name}}
	}
	n := scopeSets{setByKey: map[model.Ref]int{}, scopesOf: func(r *model.Record) []sse.Scope {
		if r.Ref.IsManaged() {
			return []sse.Scope{{Resource: "appstacks", Namespace: r.Ref.Namespace}}
		}
		return []sse.Scope{{Resource: r.Ref.Name, Namespace: r.Ref.Namespace}, {Resource: "pods", Namespace: r.Ref.Namespace}}
	}}
	var got []int
	for _, r := range []*model.Record{
		newRecord("a", "one", ""), group("a", "jobs"), newRecord("a", "two", ""), newRecord("b", "one", ""), group("b", "jobs"), group("b", "sets"), newRecord("a", "three", ""),
	} {
		got = append(got, n.add(r))
	}
	if want := []int{0, 1, 0, 2, 3, 4, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if all := n.distinct(); len(all) != 7 {
		t.Errorf("distinct permissions: %v", all)
	}
}

func TestParseQuery(t *testing.T) {
	cases := map[string]bool{
		"": true, "limit=500&sort=health&health=Degraded,Unknown&q=Shop": true, "limit=501": false, "limit=x": false, "limit=0": false, "sort=colour": false, "health=Sick": false, "health=Healthy,": false,
	}
	for text, valid := range cases {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseQuery(values); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestQueryMatches(t *testing.T) {
	r := newRecord("Demo", "Shop", health.Degraded)
	for text, want := range map[string]bool{
		"": true, "q=shop": true, "q=mo/sh": true, "q=x": false, "namespace=Demo": true, "namespace=demo": false, "kind=appstack": true, "kind=AppService": false,
		"health=Degraded,Unknown": true, "health=Healthy": false,
	} {
		values, _ := url.ParseQuery(text)
		q, err := parseQuery(values)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.matches(r); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestUnknownHealthNamesTheValues(t *testing.T) {
	_, err := parseQuery(url.Values{"health": {"Sick"}})
	if want := "unknown health=Sick; use one or more of Degraded,Progressing,Unknown,Suspended,Healthy, separated by commas"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
