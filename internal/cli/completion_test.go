package cli

import (
	"strings"
	"testing"
)

func TestCompletions(t *testing.T) {
	names := [][]string{{"shop", "store"}, {"web", "shop"}, nil}
	cases := map[string]struct {
		args       []string
		toComplete string
		want       string
	}{
		"nothing typed":         {want: "appservice/shop appstack/shop store web"},
		"the beginning":         {toComplete: "s", want: "store"},
		"a kind":                {toComplete: "appsvc/", want: "appsvc/shop appsvc/web"},
		"a kind and some":       {toComplete: "AppStack/st", want: "AppStack/store"},
		"after a kind":          {args: []string{"appservice"}, want: "shop web"},
		"after a name":          {args: []string{"shop"}},
		"after kind and name":   {args: []string{"appservice", "web"}},
		"nothing begins so":     {toComplete: "x"},
		"a kind that is not it": {toComplete: "deployment/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(completions(names, tc.args, tc.toComplete), " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
