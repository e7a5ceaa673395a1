// Package pictures_test keeps what list, status, why and tree print of the same scenes.
package pictures_test

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
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
	"github.com/holdfast-dev/holdfast/internal/testutil/scene"
)

var verbs = map[string]func(*cli.Env) *cobra.Command{"list": list.Command, "status": status.Command, "why": why.Command, "tree": tree.Command}

// exits are the codes that verbs about one application end with.
var exits = map[string]int{"healthy": 0, "service": 0, "broken-db": 2, "crash": 2, "two": 2, "suspended": 0, "deleting": 2, "unseen": 2, "forbidden": 2}

const narrow = 60

// picture is what a verb says about a scene, and its exit code.
func picture(t *testing.T, env *cli.Env, verb, name string, args ...string) (string, int) {
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
	return out.String() + golden.WithoutProgress(errOut.String()), cli.ExitCode(err)
}

func TestPictures(t *testing.T) {
	for name, play := range scene.Known {
		for _, verb := range []string{"status", "why", "tree"} {
			t.Run(name+" "+verb, func(t *testing.T) {
				s := play()
				env := scene.Env(t, s)
				t.Setenv("COLUMNS", "")
				wide, code := picture(t, env, verb, s.App.GetName())
				if code != exits[name] {
					t.Errorf("exit code %d, want %d", code, exits[name])
				}
				golden.Check(t, filepath.Join(name, verb+".txt"), wide)
				t.Setenv("COLUMNS", "60")
				small, _ := picture(t, env, verb, s.App.GetName())
				golden.Check(t, filepath.Join(name, verb+"-narrow.txt"), small)
				fits(t, small)
			})
		}
	}
}

// label is what stands before a text that goes on below itself.
var label = regexp.MustCompile(`^[a-z]+: +`)

// fits fails for lines that the terminal would break: only a single word may be that long.
func fits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if len([]rune(line)) > narrow && strings.Contains(label.ReplaceAllString(strings.TrimLeft(line, " │├└─"), ""), " ") {
			t.Errorf("wider than %d: %q", narrow, line)
		}
	}
}

func TestColour(t *testing.T) {
	s := scene.Known["broken-db"]()
	for verb := range verbs {
		env := scene.Env(t, s)
		env.Colour = "always"
		name := "cm"
		if verb == "list" {
			name = ""
		}
		got, _ := picture(t, env, verb, name)
		golden.Check(t, filepath.Join("colour", verb+".txt"), got)
		env.Colour = "never"
		plain, _ := picture(t, env, verb, name)
		if stripped := withoutColour(got); stripped != plain {
			t.Errorf("%s says something else in colour:\n%s", verb, cmp.Diff(plain, stripped))
		}
	}
}

func withoutColour(text string) string {
	for {
		start := strings.Index(text, "\x1b[")
		if start < 0 {
			return text
		}
		end := strings.IndexByte(text[start:], 'm')
		text = text[:start] + text[start+end+1:]
	}
}

func TestFormats(t *testing.T) {
	s := scene.Known["broken-db"]()
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
				got, _ := picture(t, scene.Env(t, s), verb, name, "-o", format)
				file, _, _ := strings.Cut(format, "=")
				golden.Check(t, filepath.Join("formats", verb+"."+file), got)
				if strings.Contains(got, "123456") {
					t.Error("the password of the database is printed")
				}
			})
		}
	}
}

func TestList(t *testing.T) {
	var all []*scene.Scene
	for _, name := range []string{"crash", "broken-db"} {
		all = append(all, scene.Known[name]())
	}
	site := scene.New("appservice", "site", `{image: "nginx:1.27", replicas: 2}`)
	site.App.SetLabels(map[string]string{"team": "web"})
	unseen := scene.New("appservice", "new", `{image: "nginx:1.27"}`)
	unseen.App.ApplicationStatus().Conditions = nil
	held := scene.Known["suspended"]()
	held.App.SetName("held")
	all = append(all, site, unseen, held)
	tests := map[string][]string{
		"list.txt":          nil,
		"list-wide.txt":     {"-o", "wide"},
		"list-all.txt":      {"-A"},
		"list-bare.txt":     {"--no-headers"},
		"list-selected.txt": {"-l", "team=web"},
		"list-nothing.txt":  {"-l", "team=nobody"},
	}
	for file, args := range tests {
		t.Run(file, func(t *testing.T) {
			t.Setenv("COLUMNS", "")
			wide, code := picture(t, scene.Env(t, all...), "list", "", args...)
			golden.Check(t, file, wide)
			if code != 0 {
				t.Errorf("exit code %d: a list is no judgement", code)
			}
			t.Setenv("COLUMNS", "60")
			small, _ := picture(t, scene.Env(t, all...), "list", "", args...)
			golden.Check(t, strings.TrimSuffix(file, ".txt")+"-narrow.txt", small)
			if file != "list-wide.txt" && file != "list-nothing.txt" { // who asks for wide has room, and prose breaks anywhere
				fits(t, small)
			}
		})
	}
}

// shown are the blocks of the documentation that show a golden file.
var shown = regexp.MustCompile("<!-- picture: (\\S+) -->\n```console\n\\$ kubectl holdfast [^\n]*\n((?s:.*?))```")

// What the page about the plugin shows is what the plugin prints.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/user/plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	found := shown.FindAllStringSubmatch(string(page), -1)
	if len(found) < 5 {
		t.Errorf("only %d pictures are shown", len(found))
	}
	for _, m := range found {
		want, err := os.ReadFile(filepath.Join("testdata", m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), m[2]); diff != "" {
			t.Errorf("docs/user/plugin.md shows %s differently (-want +got):\n%s", m[1], diff)
		}
	}
}
