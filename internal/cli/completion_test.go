package cli

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

func TestCompletions(t *testing.T) {
	names := [][]string{{"shop", "store"}, {"web", "shop"}, nil}
	cases := map[string]struct {
		args       []string
		toComplete string
		want       string
	}{
		"no input":            {want: "appservice/shop appstack/shop store web"},
		"prefix of a name":    {toComplete: "s", want: "store"},
		"kind":                {toComplete: "appsvc/", want: "appsvc/shop appsvc/web"},
		"kind and prefix":     {toComplete: "AppStack/st", want: "AppStack/store"},
		"after kind":          {args: []string{"appservice"}, want: "shop web"},
		"after name":          {args: []string{"shop"}},
		"after kind and name": {args: []string{"appservice", "web"}},
		"unknown prefix":      {toComplete: "x"},
		"unknown kind":        {toComplete: "deployment/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(completions(appkind.Builtin, names, tc.args, tc.toComplete), " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
