// Package arrows shows that the linter refuses imports against the arrows of
// docs/dev/architecture.md: rules that nobody has seen fail cannot be trusted.
package arrows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ours = "github.com/holdfast-dev/holdfast/"

// arrows lists imports (from, imported) and whether the linter must refuse them.
// The packages exist only in a temporary module of the same name.
var arrows = map[[2]string]bool{
	{"api/v1alpha1", "k8s.io/client-go/kubernetes"}:                           true,
	{"api/v1alpha1", ours + "internal/desired"}:                               true,
	{"api/v1alpha1", "sigs.k8s.io/controller-runtime/client"}:                 true,
	{"internal/desired", ours + "api/v1alpha1"}:                               false,
	{"internal/desired", ours + "internal/apply"}:                             true,
	{"internal/desired", ours + "internal/rollout"}:                           true,
	{"internal/desired", "k8s.io/client-go/kubernetes"}:                       true,
	{"internal/desired", "k8s.io/client-go/applyconfigurations"}:              false,
	{"internal/health", "sigs.k8s.io/controller-runtime/client"}:              true,
	{"internal/explain", ours + "internal/health"}:                            false,
	{"internal/explain", ours + "internal/desired"}:                           true,
	{"internal/explain", "log/slog"}:                                          true,
	{"internal/conditions", ours + "internal/health"}:                         true,
	{"internal/history", "k8s.io/client-go/kubernetes"}:                       true,
	{"internal/history", ours + "internal/desired"}:                           true,
	{"internal/kinds", ours + "api/v1alpha1"}:                                 false,
	{"internal/kinds", ours + "engine"}:                                       true,
	{"internal/kinds", ours + "internal/desired"}:                             false,
	{"internal/kinds", ours + "internal/rollout"}:                             true,
	{"internal/view", ours + "internal/explain"}:                              false,
	{"internal/view", "k8s.io/client-go/kubernetes"}:                          true,
	{"internal/center", ours + "internal/view"}:                               false,
	{"internal/rollout", ours + "internal/health"}:                            false,
	{"internal/rollout", ours + "internal/apply"}:                             true,
	{"internal/own", ours + "internal/desired"}:                               false,
	{"internal/own", ours + "internal/rollout"}:                               true,
	{"internal/own", "sigs.k8s.io/controller-runtime/client"}:                 true,
	{"internal/rehearsal", ours + "internal/rollout"}:                         false,
	{"internal/rehearsal", ours + "internal/apply"}:                           true,
	{"internal/rehearsal", "k8s.io/client-go/kubernetes"}:                     true,
	{"internal/apply", ours + "internal/own"}:                                 false,
	{"internal/apply", ours + "internal/desired"}:                             false,
	{"internal/apply", ours + "internal/rollout"}:                             true,
	{"internal/apply", "k8s.io/client-go/kubernetes"}:                         false,
	{"engine", ours + "internal/apply"}:                                       false,
	{"engine", ours + "internal/controller/appstack"}:                         true,
	{"engine", ours + "internal/kinds"}:                                       true,
	{"engine", ours + "internal/testutil"}:                                    true,
	{"internal/controller/appservice", ours + "engine"}:                       false,
	{"internal/controller/appservice", ours + "internal/kinds"}:               false,
	{"internal/controller/appservice", ours + "internal/apply"}:               true,
	{"internal/controller/appservice", ours + "internal/controller/appstack"}: true,
	{"internal/center", ours + "internal/health"}:                             false,
	{"internal/center", ours + "internal/apply"}:                              true,
	{"internal/center/act", ours + "internal/edit"}:                           false,
	{"internal/center/act", ours + "internal/cli"}:                            true,
	{"internal/edit", ours + "internal/revisions"}:                            false,
	{"internal/edit", ours + "internal/apply"}:                                true,
	{"internal/logs", ours + "internal/application"}:                          false,
	{"internal/logs", ours + "internal/cli"}:                                  true,
	{"internal/redact", "sigs.k8s.io/controller-runtime/client"}:              true,
	{"internal/cli/plan", ours + "internal/kinds"}:                            false,
	{"internal/cli/plan", ours + "internal/controller/appstack"}:              true,
	{"internal/cli/engine", ours + "internal/cli/look"}:                       false,
	{"internal/cli/engine", ours + "internal/apply"}:                          true,
	{"internal/cli/why", ours + "engine"}:                                     true,
	{"cmd/operator", ours + "engine"}:                                         false,
	{"cmd/operator", ours + "internal/controller/appservice"}:                 false,
	{"cmd/operator", ours + "internal/testutil"}:                              true,
	{"examples/raw-watch", ours + "api/v1alpha1"}:                             false,
	{"examples/watch-appservices", ours + "client/clientset/versioned"}:       false,
	{"examples/watch-appservices", ours + "internal/health"}:                  true,
}

func TestLinterRefusesImportsAgainstTheArrows(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	got := refused(t, root, makeModule(t))
	if diff := cmp.Diff(arrows, got); diff != "" {
		t.Errorf("refused imports (-want +got):\n%s", diff)
	}
}

// makeModule writes one package per arrow, and an empty package for everything imported.
func makeModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var mod strings.Builder
	fmt.Fprintf(&mod, "module %s\n\ngo 1.26\n", strings.TrimSuffix(ours, "/"))
	for _, m := range []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"} {
		fmt.Fprintf(&mod, "\nrequire %s v0.0.0\nreplace %s => ./stub/%s\n", m, m, m)
		write("stub/"+m+"/go.mod", "module "+m+"\n\ngo 1.26\n")
	}
	write("go.mod", mod.String())
	for i, arrow := range slices.SortedFunc(maps.Keys(arrows), compare) {
		from, imported := arrow[0], arrow[1]
		// In a folder of its own: arrows in both directions would be a cycle.
		write(fmt.Sprintf("%s/arrow%d/arrow.go", from, i), fmt.Sprintf("package arrow\n\nimport _ %q\n", imported))
		empty := "package " + strings.ReplaceAll(path.Base(imported), "-", "") + "\n"
		if p, ok := strings.CutPrefix(imported, ours); ok {
			write(p+"/doc.go", empty)
		} else if strings.Contains(imported, ".io/") {
			write("stub/"+imported+"/doc.go", empty)
		}
	}
	return dir
}

// refused runs the linter with the repository's own configuration.
func refused(t *testing.T, root, dir string) map[[2]string]bool {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "hack/tool.sh"), "golangci-lint", "run",
		"--config", filepath.Join(root, ".golangci.yml"), "--enable-only", "depguard",
		"--issues-exit-code", "0", "--show-stats=false", "--path-mode", "abs",
		"--output.json.path", "stdout", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("golangci-lint: %v\n%s%s", err, out, stderr.String())
	}
	var report struct {
		Issues []struct {
			FromLinter, Text string
			Pos              struct{ Filename string }
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("golangci-lint: %v\n%s%s", err, out, stderr.String())
	}
	got := map[[2]string]bool{}
	for arrow := range arrows {
		got[arrow] = false
	}
	for _, issue := range report.Issues {
		if issue.FromLinter != "depguard" {
			t.Fatalf("%s: %s", issue.FromLinter, issue.Text)
		}
		_, rest, _ := strings.Cut(issue.Text, "import '")
		imported, _, _ := strings.Cut(rest, "'")
		from, err := filepath.Rel(dir, filepath.Dir(filepath.Dir(issue.Pos.Filename)))
		if err != nil {
			t.Fatal(err)
		}
		got[[2]string{from, imported}] = true
	}
	return got
}

func compare(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
