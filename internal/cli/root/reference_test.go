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
	page  = "../../../docs/user/plugin.md"
	begin = "<!-- begin of the reference: go test ./internal/cli/root -update writes it -->\n"
	end   = "<!-- end of the reference -->\n"
)

// TestReference holds the page about the plugin to the flags that there are.
func TestReference(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the reference", page)
	}
	want := reference(Command("dev"))
	if *golden.Update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got); go test ./internal/cli/root -update writes it:\n%s", page, diff)
	}
}

func reference(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range root.Commands() {
		fmt.Fprintf(&b, "\n**%s**: %s.\n\n```text\n%s\n", c.Name(), c.Short, c.UseLine())
		if len(c.Aliases) > 0 {
			fmt.Fprintf(&b, "also called %s\n", strings.Join(c.Aliases, ", "))
		}
		b.WriteString(usages(c.NonInheritedFlags().FlagUsages()) + "```\n")
	}
	fmt.Fprintf(&b, "\n**All verbs** take the flags of kubectl, too:\n\n```text\n%s```\n", usages(root.PersistentFlags().FlagUsages()))
	return b.String()
}

// usages leaves out where this machine keeps its cache.
func usages(text string) string {
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

// TestEveryVerbHasASection: what the page does not show, nobody finds.
func TestEveryVerbHasASection(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Command("dev").Commands() {
		if !strings.Contains(string(content), "$ kubectl holdfast "+c.Name()) {
			t.Errorf("%s shows no example of %s", page, c.Name())
		}
	}
}
