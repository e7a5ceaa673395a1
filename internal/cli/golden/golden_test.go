// Package golden_test compares the output of list, status, why and tree with golden files.
package golden_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/list"
	"github.com/holdfast-dev/holdfast/internal/cli/status"
	"github.com/holdfast-dev/holdfast/internal/cli/tree"
	"github.com/holdfast-dev/holdfast/internal/cli/why"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

var verbs = map[string]func(*cli.Env) *cobra.Command{"list": list.Command, "status": status.Command, "why": why.Command, "tree": tree.Command}

// exitCodes are the exit codes of the commands for one application, by fixture.
var exitCodes = map[string]int{"healthy": 0, "service": 0, "broken-db": 2, "crash": 2, "rejected": 2, "restart": 2, "finished": 2, "two": 2, "suspended": 0, "held": 0, "rotating": 0, "deleting": 2, "stopping": 2, "unseen": 2, "forbidden": 2, "no-port": 2, "invalid": 2, "conflict": 2}

const narrowWidth = 60

// runVerb runs a command against a fixture and returns its output and exit code.
func runVerb(t *testing.T, env *cli.Env, verb, name string, args ...string) (string, int) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := verbs[verb](env)
	cmd.SetArgs(append([]string{name}, args...))
	if name == "" {
		cmd.SetArgs(append([]string{}, args...))
	}
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	if cli.ExitCode(err) == cli.ExitError {
		t.Fatalf("%s: %v", verb, err)
	}
	return out.String() + golden.StripProgress(errOut.String()), cli.ExitCode(err)
}

func TestGoldenOutput(t *testing.T) {
	for name, newFixture := range fixtures.ByName {
		for _, verb := range []string{"status", "why", "tree"} {
			t.Run(name+" "+verb, func(t *testing.T) {
				s := newFixture()
				env := fixtures.Env(t, s)
				t.Setenv("COLUMNS", "")
				wide, code := runVerb(t, env, verb, s.App.GetName())
				if code != exitCodes[name] {
					t.Errorf("exit code %d, want %d", code, exitCodes[name])
				}
				golden.Check(t, filepath.Join(name, verb+".txt"), wide)
				t.Setenv("COLUMNS", "60")
				narrow, _ := runVerb(t, env, verb, s.App.GetName())
				golden.Check(t, filepath.Join(name, verb+"-narrow.txt"), narrow)
				expectFits(t, narrow)
			})
		}
	}
}

// labelPrefix matches the label of a wrapped text.
var labelPrefix = regexp.MustCompile(`^[a-z]+: +`)

// expectFits fails for lines that are too long for the terminal. Only single words can be longer.
func expectFits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if len([]rune(line)) > narrowWidth && strings.Contains(labelPrefix.ReplaceAllString(strings.TrimLeft(line, " │├└─"), ""), " ") {
			t.Errorf("wider than %d: %q", narrowWidth, line)
		}
	}
}

func TestColor(t *testing.T) {
	s := fixtures.ByName["broken-db"]()
	for verb := range verbs {
		env := fixtures.Env(t, s)
		env.Color = "always"
		name := "cm"
		if verb == "list" {
			name = ""
		}
		got, _ := runVerb(t, env, verb, name)
		golden.Check(t, filepath.Join("colour", verb+".txt"), got)
		env.Color = "never"
		plain, _ := runVerb(t, env, verb, name)
		if stripped := stripColor(got); stripped != plain {
			t.Errorf("output of %s differs with color:\n%s", verb, cmp.Diff(plain, stripped))
		}
	}
}

func stripColor(text string) string {
	for {
		start := strings.Index(text, "\x1b[")
		if start < 0 {
			return text
		}
		end := strings.IndexByte(text[start:], 'm')
		text = text[:start] + text[start+end+1:]
	}
}

func TestOutputFormats(t *testing.T) {
	s := fixtures.ByName["broken-db"]()
	for _, verb := range []string{"status", "why", "tree", "list"} {
		formats := []string{"json", "yaml", "jsonpath={.kind}"}
		if verb == "status" || verb == "list" {
			formats = append(formats, "name")
		}
		name := "cm"
		if verb == "list" {
			name = ""
		}
		for _, format := range formats {
			t.Run(verb+" "+format, func(t *testing.T) {
				got, _ := runVerb(t, fixtures.Env(t, s), verb, name, "-o", format)
				file, _, _ := strings.Cut(format, "=")
				golden.Check(t, filepath.Join("formats", verb+"."+file), got)
				if strings.Contains(got, "123456") {
					t.Error("the password of the database is printed")
				}
			})
		}
	}
}

func TestListOutput(t *testing.T) {
	var all []*fixtures.Fixture
	for _, name := range []string{"crash", "broken-db"} {
		all = append(all, fixtures.ByName[name]())
	}
	site := fixtures.New("appservice", "site", `{image: "nginx:1.27", replicas: 2}`)
	site.App.SetLabels(map[string]string{"team": "web"})
	notObserved := fixtures.New("appservice", "new", `{image: "nginx:1.27"}`)
	notObserved.App.ApplicationStatus().Conditions = nil
	suspended := fixtures.ByName["suspended"]()
	suspended.App.SetName("held")
	rotating := fixtures.ByName["rotating"]()
	rotating.App.SetName("vault")
	all = append(all, site, notObserved, suspended, rotating)
	tests := map[string][]string{
		"list.txt":          nil,
		"list-wide.txt":     {"-o", "wide"},
		"list-all.txt":      {"-A"},
		"list-bare.txt":     {"--no-headers"},
		"list-selected.txt": {"-l", "team=web"},
		"list-nothing.txt":  {"-l", "team=none"},
	}
	for file, args := range tests {
		t.Run(file, func(t *testing.T) {
			t.Setenv("COLUMNS", "")
			wide, code := runVerb(t, fixtures.Env(t, all...), "list", "", args...)
			golden.Check(t, file, wide)
			if code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			t.Setenv("COLUMNS", "60")
			narrow, _ := runVerb(t, fixtures.Env(t, all...), "list", "", args...)
			golden.Check(t, strings.TrimSuffix(file, ".txt")+"-narrow.txt", narrow)
			if file != "list-wide.txt" && file != "list-nothing.txt" { // wide tables and sentences can exceed the width
				expectFits(t, narrow)
			}
		})
	}
}

// goldenBlocks matches the blocks of the documentation that contain a golden file.
var goldenBlocks = regexp.MustCompile("<!-- picture: (\\S+) -->\n```console\n\\$ kubectl holdfast [^\n]*\n((?s:.*?))```")

// The plugin page shows the current golden files.
func TestDocsShowGoldenOutput(t *testing.T) {
	page, err := os.ReadFile("../../../docs/user/plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	found := goldenBlocks.FindAllStringSubmatch(string(page), -1)
	if len(found) < 5 {
		t.Errorf("found only %d golden blocks", len(found))
	}
	for _, m := range found {
		want, err := os.ReadFile(filepath.Join("testdata", m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), m[2]); diff != "" {
			t.Errorf("docs/user/plugin.md differs from %s (-want +got):\n%s", m[1], diff)
		}
	}
}
