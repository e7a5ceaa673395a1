package root

import (
	"bytes"
	"strings"
	"testing"
)

func TestCommandRunsVerbs(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"version": {args: []string{"--version"}, want: "kubectl holdfast version dev\n"},
		"plan":    {args: []string{"plan", "-f", "../../../config/samples/appservice.yaml", "--offline"}, want: "AppService web, 1 component\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := Command("dev")
			root.SetOut(&out)
			root.SetArgs(tc.args)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out.String(), tc.want) {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}
