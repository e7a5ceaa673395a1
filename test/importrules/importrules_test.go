// Package importrules tests that the linter rejects imports that violate the rules of docs/dev/architecture.md.
package importrules

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

const modulePrefix = "github.com/holdfast-dev/holdfast/"

// importRules lists imports (importing package, imported package) and whether the linter must reject them.
// The packages exist only in a temporary module of the same name.
var importRules = map[[2]string]bool{
	{"api/v1alpha1", "k8s.io/client-go/kubernetes"}:                                   true,
	{"api/v1alpha1", modulePrefix + "internal/desired"}:                               true,
	{"api/v1alpha1", "sigs.k8s.io/controller-runtime/client"}:                         true,
	{"internal/desired", modulePrefix + "api/v1alpha1"}:                               false,
	{"internal/desired", modulePrefix + "internal/apply"}:                             true,
	{"internal/desired", modulePrefix + "internal/rollout"}:                           true,
	{"internal/desired", "k8s.io/client-go/kubernetes"}:                               true,
	{"internal/desired", "k8s.io/client-go/applyconfigurations"}:                      false,
	{"internal/health", "sigs.k8s.io/controller-runtime/client"}:                      true,
	{"internal/explain", modulePrefix + "internal/health"}:                            false,
	{"internal/explain", modulePrefix + "internal/desired"}:                           true,
	{"internal/explain", "log/slog"}:                                                  true,
	{"internal/conditions", modulePrefix + "internal/health"}:                         true,
	{"internal/revision", "k8s.io/client-go/kubernetes"}:                              true,
	{"internal/revision", modulePrefix + "internal/desired"}:                          true,
	{"internal/revision", modulePrefix + "internal/revision/reader"}:                  true,
	{"internal/revision/reader", "sigs.k8s.io/controller-runtime/client"}:             false,
	{"internal/reconcile/execute", modulePrefix + "internal/revision"}:                false,
	{"internal/reconcile/execute", modulePrefix + "internal/revision/reader"}:         true,
	{"internal/appkind", modulePrefix + "api/v1alpha1"}:                               false,
	{"internal/appkind", modulePrefix + "engine"}:                                     true,
	{"internal/appkind", modulePrefix + "internal/desired"}:                           false,
	{"internal/appkind", modulePrefix + "internal/rollout"}:                           true,
	{"internal/appkind", "sigs.k8s.io/controller-runtime/client"}:                     true,
	{"internal/inspect", modulePrefix + "internal/appkind"}:                           false,
	{"internal/inspect", modulePrefix + "internal/explain"}:                           false,
	{"internal/inspect", "k8s.io/client-go/kubernetes"}:                               true,
	{"internal/center", modulePrefix + "internal/inspect"}:                            false,
	{"internal/rollout", modulePrefix + "internal/health"}:                            false,
	{"internal/rollout", modulePrefix + "internal/apply"}:                             true,
	{"internal/ownership", modulePrefix + "internal/desired"}:                         false,
	{"internal/ownership", modulePrefix + "internal/rollout"}:                         true,
	{"internal/ownership", "sigs.k8s.io/controller-runtime/client"}:                   true,
	{"internal/ownership", modulePrefix + "internal/fieldmanager"}:                    true,
	{"internal/fieldmanager", modulePrefix + "internal/ownership"}:                    false,
	{"internal/fieldmanager", modulePrefix + "internal/rollout"}:                      true,
	{"internal/fieldmanager", "sigs.k8s.io/controller-runtime/client"}:                true,
	{"internal/apply", modulePrefix + "internal/fieldmanager"}:                        false,
	{"internal/simulate", modulePrefix + "internal/rollout"}:                          false,
	{"internal/simulate", modulePrefix + "internal/reconcile/execute"}:                false,
	{"internal/simulate", modulePrefix + "internal/database"}:                         true,
	{"internal/simulate", "k8s.io/client-go/kubernetes"}:                              true,
	{"internal/apply", modulePrefix + "internal/ownership"}:                           false,
	{"internal/apply", modulePrefix + "internal/desired"}:                             false,
	{"internal/apply", modulePrefix + "internal/rollout"}:                             true,
	{"internal/apply", "k8s.io/client-go/kubernetes"}:                                 false,
	{"engine", modulePrefix + "internal/apply"}:                                       false,
	{"engine", modulePrefix + "internal/controller/appstack"}:                         true,
	{"engine", modulePrefix + "internal/appkind"}:                                     true,
	{"engine", modulePrefix + "internal/testutil"}:                                    true,
	{"internal/reconcile", modulePrefix + "internal/appkind"}:                         true,
	{"internal/reconcile", modulePrefix + "internal/database"}:                        false,
	{"internal/reconcile/execute", modulePrefix + "internal/apply"}:                   false,
	{"internal/reconcile/execute", modulePrefix + "internal/database"}:                true,
	{"internal/reconcile/retained", modulePrefix + "internal/managercache"}:           true,
	{"internal/controller/appservice", modulePrefix + "engine"}:                       false,
	{"internal/controller/appservice", modulePrefix + "internal/appkind"}:             false,
	{"internal/controller/appservice", modulePrefix + "internal/apply"}:               true,
	{"internal/controller/appservice", modulePrefix + "internal/controller/appstack"}: true,
	{"internal/center", modulePrefix + "internal/health"}:                             false,
	{"internal/center", modulePrefix + "internal/apply"}:                              true,
	{"internal/center/actions", modulePrefix + "internal/edit"}:                       false,
	{"internal/center/actions", modulePrefix + "internal/cli"}:                        true,
	{"internal/edit", modulePrefix + "internal/revision/reader"}:                      false,
	{"internal/edit", modulePrefix + "internal/apply"}:                                true,
	{"internal/logs", modulePrefix + "internal/kubeclient"}:                           false,
	{"internal/kubeclient", modulePrefix + "internal/cli"}:                            true,
	{"internal/logs", modulePrefix + "internal/cli"}:                                  true,
	{"internal/redact", "sigs.k8s.io/controller-runtime/client"}:                      true,
	{"internal/cli/plan", modulePrefix + "internal/appkind"}:                          false,
	{"internal/cli/plan", modulePrefix + "internal/controller/appstack"}:              true,
	{"internal/cli/center", modulePrefix + "internal/cli/collect"}:                    false,
	{"internal/cli/center", modulePrefix + "internal/apply"}:                          true,
	{"internal/cli/why", modulePrefix + "engine"}:                                     true,
	{"cmd/operator", modulePrefix + "engine"}:                                         false,
	{"cmd/operator", modulePrefix + "internal/controller/appservice"}:                 false,
	{"cmd/operator", modulePrefix + "internal/testutil"}:                              true,
	{"examples/raw-watch", modulePrefix + "api/v1alpha1"}:                             false,
	{"examples/watch-appservices", modulePrefix + "client/clientset/versioned"}:       false,
	{"examples/watch-appservices", modulePrefix + "internal/health"}:                  true,
}

func TestLinterRejectsForbiddenImports(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	got := rejectedImports(t, root, writeModule(t))
	if diff := cmp.Diff(importRules, got); diff != "" {
		t.Errorf("rejected imports (-want +got):\n%s", diff)
	}
}

// writeModule writes one package per rule, and an empty package for each imported package.
func writeModule(t *testing.T) string {
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
	fmt.Fprintf(&mod, "module %s\n\ngo 1.26\n", strings.TrimSuffix(modulePrefix, "/"))
	for _, m := range []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"} {
		fmt.Fprintf(&mod, "\nrequire %s v0.0.0\nreplace %s => ./stub/%s\n", m, m, m)
		write("stub/"+m+"/go.mod", "module "+m+"\n\ngo 1.26\n")
	}
	write("go.mod", mod.String())
	for i, rule := range slices.SortedFunc(maps.Keys(importRules), compareRules) {
		from, imported := rule[0], rule[1]
		// Use a separate directory, because rules for both directions would result in an import cycle.
		write(fmt.Sprintf("%s/arrow%d/arrow.go", from, i), fmt.Sprintf("package arrow\n\nimport _ %q\n", imported))
		empty := "package " + strings.ReplaceAll(path.Base(imported), "-", "") + "\n"
		if p, ok := strings.CutPrefix(imported, modulePrefix); ok {
			write(p+"/doc.go", empty)
		} else if strings.Contains(imported, ".io/") {
			write("stub/"+imported+"/doc.go", empty)
		}
	}
	return dir
}

// rejectedImports runs the linter with the configuration of the repository.
func rejectedImports(t *testing.T, root, dir string) map[[2]string]bool {
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
	for rule := range importRules {
		got[rule] = false
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

func compareRules(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
