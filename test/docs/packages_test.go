package docs

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var packageRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/-]+)` \\|")

// docs/dev/architecture.md lists every package of the module exactly once.
func TestArchitectureListsEveryPackage(t *testing.T) {
	page, err := os.ReadFile("../../docs/dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range packageRow.FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	out, err := exec.Command("go", "list", "-C", "../..", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for path := range strings.FieldsSeq(string(out)) {
		name := strings.TrimPrefix(path, "github.com/holdfast-dev/holdfast/")
		if !strings.HasPrefix(name, "client/") { // generated
			packages = append(packages, name)
		}
	}
	slices.Sort(packages)
	if diff := cmp.Diff(packages, listed); diff != "" {
		t.Errorf("packages of docs/dev/architecture.md (-exist +listed):\n%s", diff)
	}
}
