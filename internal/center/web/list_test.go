package web

import (
	"net/url"
	"testing"

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
