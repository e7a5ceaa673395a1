package enginetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// prebuiltEnv names a folder with prebuilt programs.
const prebuiltEnv = "HOLDFAST_PREBUILT"

// Program returns the path of a program of Holdfast: operator, center or kubectl-holdfast. It is built from the
// version of Holdfast that your module requires, unless the folder HOLDFAST_PREBUILT has it.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path := filepath.Join(os.Getenv(prebuiltEnv), name); os.Getenv(prebuiltEnv) != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-dev/holdfast")
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("find the module of Holdfast: %v", err)
	}
	path := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/"+name)
	build.Dir = strings.TrimSpace(string(dir))
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, output)
	}
	return path
}
