package root

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

const (
	pluginPage     = "../../../docs/user/plugin.md"
	referenceBegin = "<!-- begin of the reference: go test ./internal/cli/root -update writes it -->\n"
	referenceEnd   = "<!-- end of the reference -->\n"
)

// TestReferenceIsUpToDate holds the page about the plugin to the flags that there are.
func TestReferenceIsUpToDate(t *testing.T) {
	content, err := os.ReadFile(pluginPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), referenceBegin)
	got, after, closed := strings.Cut(rest, referenceEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the reference", pluginPage)
	}
	want := renderReference(Command("dev"))
	if *golden.Update {
		if err := os.WriteFile(pluginPage, []byte(before+referenceBegin+want+referenceEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got); go test ./internal/cli/root -update writes it:\n%s", pluginPage, diff)
	}
}

func renderReference(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range root.Commands() {
		fmt.Fprintf(&b, "\n**%s**: %s.\n\n```text\n%s\n", c.Name(), c.Short, c.UseLine())
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "also called %s\n", strings.Join(c.Aliases, ", "))
		}
		b.WriteString(flagUsages(c.NonInheritedFlags().FlagUsages()) + "```\n")
	}
	fmt.Fprintf(&b, "\n**All verbs** take the flags of kubectl, too:\n\n```text\n%s```\n", flagUsages(root.PersistentFlags().FlagUsages()))
	return b.String()
}

// flagUsages leaves out where this machine keeps its cache.
func flagUsages(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "--cache-dir") {
			line, _, _ = strings.Cut(line, " (default ")
			line = strings.TrimRight(line, "\n") + "\n"
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// TestEveryVerbHasAnExample: what the page does not show, nobody finds.
func TestEveryVerbHasAnExample(t *testing.T) {
	content, err := os.ReadFile(pluginPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Command("dev").Commands() {
		if !strings.Contains(string(content), "$ kubectl holdfast "+c.Name()) {
			t.Errorf("%s shows no example of %s", pluginPage, c.Name())
		}
	}
}
