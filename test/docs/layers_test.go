package docs

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layeredPackages are the packages whose files are listed by layer in architecture.md.
var layeredPackages = []string{"internal/reconcile", "internal/reconcile/execute"}

var (
	layerRow  = regexp.MustCompile("(?m)^\\| [a-z -]+ \\| `(internal/[a-z/]+)` \\| ([^|]+) \\|")
	layerFile = regexp.MustCompile(`[a-z_]+\.go`)
)

// A file refers only to its own layer and to lower layers. The count is of distinct pairs of a file and a declaration in
// another file.
func TestFilesReferToLowerLayersOnly(t *testing.T) {
	page, err := os.ReadFile("../../docs/dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]map[string]int{} // layer of each file, by package; 0 is the top layer
	for i, row := range layerRow.FindAllStringSubmatch(string(page), -1) {
		if layers[row[1]] == nil {
			layers[row[1]] = map[string]int{}
		}
		for _, name := range layerFile.FindAllString(row[2], -1) {
			layers[row[1]][name] = i
		}
	}
	for _, pkg := range layeredPackages {
		t.Run(pkg, func(t *testing.T) {
			refs, files := references(t, pkg)
			if diff := cmp.Diff(files, slices.Sorted(maps.Keys(layers[pkg]))); diff != "" {
				t.Fatalf("files of the layers in docs/dev/architecture.md (-exist +listed):\n%s", diff)
			}
			upward := 0
			for _, r := range refs {
				if layers[pkg][r.from] > layers[pkg][r.to] {
					upward++
					t.Errorf("%s uses %s of %s, which is in a higher layer", r.from, r.name, r.to)
				}
			}
			t.Logf("%d references between files, %d to a higher layer", len(refs), upward)
		})
	}
}

// reference is the use of a declaration from another file.
type reference struct{ from, to, name string }

// references type-checks a package without its tests.
func references(t *testing.T, pkg string) (refs []reference, files []string) {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	paths, err := filepath.Glob(filepath.Join("../..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "doc.go" {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed, files = append(parsed, f), append(files, filepath.Base(path))
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exportData(t, pkg))}
	checked, err := config.Check(pkg, fset, parsed, info)
	if err != nil {
		t.Fatal(err)
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	found := map[reference]bool{}
	for ident, obj := range info.Uses {
		if obj.Pkg() != checked {
			continue
		}
		r := reference{fileOf(ident.Pos()), fileOf(obj.Pos()), obj.Name()}
		if r.from != r.to {
			found[r] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b reference) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}), files
}

// exportData returns the export data of every imported package.
func exportData(t *testing.T, pkg string) importer.Lookup {
	t.Helper()
	out, err := exec.Command("go", "list", "-C", "../..", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
}
