package objdiff

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPathString(t *testing.T) {
	cases := map[string]struct {
		path Path
		want string
	}{
		"empty":              {},
		"fields":             {Path{}.Field("spec").Field("replicas"), "spec.replicas"},
		"an item":            {Path{}.Field("spec").Field("components").Item("api").Field("image"), "spec.components[api].image"},
		"a key with dots":    {Path{}.Field("metadata").Field("annotations").Field("example.com/team"), "metadata.annotations[example.com/team]"},
		"a plain key":        {Path{}.Field("data").Field("MODE"), "data.MODE"},
		"a file name":        {Path{}.Field("data").Field("app.yaml"), "data[app.yaml]"},
		"lists of lists":     {Path{}.Field("a").Item("0").Item("1"), "a[0][1]"},
		"a list at the root": {Path{}.Item("0").Field("a"), "[0].a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.path.String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := ParsePath(tc.want).String(); got != tc.want {
				t.Errorf("a parsed path prints as %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParsePath(t *testing.T) {
	got := ParsePath("files[/etc/app.yaml].content")
	want := Path{{Name: "files"}, {Name: "/etc/app.yaml", Item: true}, {Name: "content"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPathsDoNotShareSteps(t *testing.T) {
	parent := Path{}.Field("spec").Field("template")
	a, b := parent.Field("a"), parent.Field("b")
	if a.String() != "spec.template.a" || b.String() != "spec.template.b" {
		t.Errorf("got %s and %s", a, b)
	}
}
