package web

import (
	"net/url"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

func record(namespace, name string, h health.Status) *model.Record {
	return &model.Record{Ref: model.Ref{Kind: "AppStack", Namespace: namespace, Name: name}, View: view.View{Health: h}}
}

func TestBegin(t *testing.T) {
	all := []*model.Record{record("a", "one", ""), record("a", "two", ""), record("b", "one", "")}
	cases := map[string]struct {
		query query
		want  int
	}{
		"the first page":          {query{}, 0},
		"nonsense":                {query{after: "x"}, 0},
		"after the first":         {query{after: "AppStack/a/one"}, 1},
		"after the last":          {query{after: "AppStack/b/one"}, 3},
		"one that went":           {query{after: "AppStack/a/other"}, 1},
		"the last one went":       {query{after: "AppStack/c/one"}, 3},
		"went, by health":         {query{after: "AppStack/a/other", order: "health"}, 0},
		"is there, by health":     {query{after: "AppStack/a/two", order: "health"}, 2},
		"another kind comes next": {query{after: "AppService/a/two"}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.query.begin(all); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// A right is asked for once for all of ours of a kind and namespace, and for each group by itself:
// what it is made of decides.
func TestNeeds(t *testing.T) {
	group := func(namespace, name string) *model.Record {
		return &model.Record{Ref: model.Ref{Kind: "Group", Namespace: namespace, Name: name}}
	}
	n := needs{known: map[model.Ref]int{}, of: func(r *model.Record) []hub.Scope {
		if r.Ref.IsOurs() {
			return []hub.Scope{{Resource: "appstacks", Namespace: r.Ref.Namespace}}
		}
		return []hub.Scope{{Resource: r.Ref.Name, Namespace: r.Ref.Namespace}, {Resource: "pods", Namespace: r.Ref.Namespace}}
	}}
	var got []int
	for _, r := range []*model.Record{
		record("a", "one", ""), group("a", "jobs"), record("a", "two", ""), record("b", "one", ""), group("b", "jobs"), group("b", "sets"), record("a", "three", ""),
	} {
		got = append(got, n.add(r))
	}
	if want := []int{0, 1, 0, 2, 3, 4, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if all := n.scopes(); len(all) != 7 {
		t.Errorf("each right is asked for once: %v", all)
	}
}

func TestParseQuery(t *testing.T) {
	cases := map[string]bool{
		"": true, "limit=500&sort=health&health=Degraded,Unknown&q=Shop": true, "limit=501": false, "limit=x": false, "limit=0": false, "sort=colour": false,
	}
	for text, fine := range cases {
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseQuery(values); (err == nil) != fine {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMatches(t *testing.T) {
	r := record("Demo", "Shop", health.Degraded)
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
