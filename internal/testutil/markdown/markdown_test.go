package markdown

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const page = "# How it works: *one* change\n" +
		"See [this](a.md#b) and [that](https://example.com).\n" +
		"\n<!-- start -->\n```sh\nkubectl get [x](y)\n```\n" +
		"```yaml\nkind: A\n```\n"
	got, err := parse(page)
	if err != nil {
		t.Fatal(err)
	}
	want := Page{
		Blocks: []Block{
			{Info: "sh", Text: "kubectl get [x](y)\n", Marker: "start", Line: 5},
			{Info: "yaml", Text: "kind: A\n", Line: 8},
		},
		Links:   map[int][]string{2: {"a.md#b", "https://example.com"}},
		Anchors: map[string]bool{"how-it-works-one-change": true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if _, err := parse("```sh\nnever ends\n"); err == nil {
		t.Error("got no error for a block that is not closed")
	}
}
