// Package docs checks the documentation: YAML examples decode strictly, links resolve, and named functions exist.
package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/markdown"
)

const root = "../.."

// pages returns all documentation pages by their path in the repository.
func pages(t *testing.T) map[string]markdown.Page {
	t.Helper()
	found := map[string]markdown.Page{}
	read := func(file string) error {
		page, err := markdown.Read(file)
		name, _ := filepath.Rel(root, file)
		found[name] = page
		return err
	}
	top, err := filepath.Glob(root + "/*.md")
	for _, file := range top {
		err = errors.Join(err, read(file))
	}
	err = errors.Join(err, filepath.WalkDir(root+"/docs", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		return read(file)
	}))
	if err != nil || len(found) < 10 {
		t.Fatalf("read %d pages: %v", len(found), err)
	}
	return found
}

// TestYAMLExamplesDecodeStrictly rejects unknown and duplicate fields in every example.
func TestYAMLExamplesDecodeStrictly(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), appsapi.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	holdfastExamples := 0
	for name, page := range pages(t) {
		for _, block := range page.Blocks {
			if block.Info != "yaml" {
				continue
			}
			for text := range strings.SplitSeq(block.Text, "\n---\n") {
				var obj unstructured.Unstructured
				if err := yaml.UnmarshalStrict([]byte(text), &obj.Object); err != nil {
					t.Errorf("%s:%d: %v", name, block.Line, err)
					continue
				}
				if _, _, err := decoder.Decode([]byte(text), nil, nil); err != nil {
					t.Errorf("%s:%d: %v", name, block.Line, err)
				}
				if obj.GroupVersionKind().Group == appsapi.GroupVersion.Group {
					holdfastExamples++
				}
			}
		}
	}
	if holdfastExamples == 0 {
		t.Error("found no example of a Holdfast kind")
	}
}

// TestLinksResolve checks every link into the repository.
func TestLinksResolve(t *testing.T) {
	all := pages(t)
	for name, page := range all {
		for line, links := range page.Links {
			for _, link := range links {
				if strings.Contains(link, "://") {
					continue
				}
				path, anchor, _ := strings.Cut(link, "#")
				target := name
				if path != "" {
					target = filepath.Join(filepath.Dir(name), path)
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d: link target %s does not exist", name, line, link)
				}
				if anchor != "" && filepath.Ext(target) == ".md" && !all[target].Anchors[anchor] {
					t.Errorf("%s:%d: %s has no heading #%s", name, line, target, anchor)
				}
			}
		}
	}
}

var (
	// localFunctionLink is a link to a Go file of this repository whose text names a function in it.
	localFunctionLink = regexp.MustCompile("\\[`([A-Za-z.]+)`\\]\\(([^)]+\\.go)\\)")
	// moduleFunctionRef names a function in a module, for example client-go `tools/cache/reflector.go` `watchList`.
	moduleFunctionRef = regexp.MustCompile("(client-go|controller-runtime)\\s+`([a-z_/]+\\.go)`\\s+`([A-Za-z_.]+)`")
)

// modulePaths maps module names used in the docs to module paths.
var modulePaths = map[string]string{"client-go": "k8s.io/client-go", "controller-runtime": "sigs.k8s.io/controller-runtime"}

// TestNamedFunctionsExist checks every function that docs/concepts names.
func TestNamedFunctionsExist(t *testing.T) {
	dirs := moduleDirs(t)
	files, err := filepath.Glob(root + "/docs/concepts/*.md")
	if err != nil {
		t.Fatal(err)
	}
	references := 0
	for _, page := range files {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range localFunctionLink.FindAllStringSubmatch(string(content), -1) {
			references++
			checkDefines(t, page, filepath.Join(filepath.Dir(page), m[2]), m[1])
		}
		for _, m := range moduleFunctionRef.FindAllStringSubmatch(string(content), -1) {
			references++
			checkDefines(t, page, filepath.Join(dirs[m[1]], m[2]), m[3])
		}
	}
	if references == 0 {
		t.Error("found no function names: update the regular expressions")
	}
}

// checkDefines fails if a file does not define the function, method or type.
func checkDefines(t *testing.T, page, file, name string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s: %v", page, err)
		return
	}
	pattern := `(?m)^(func|type) ` + regexp.QuoteMeta(name) + `\b`
	if receiver, method, ok := strings.Cut(name, "."); ok {
		pattern = `(?m)^func \(\w+ \*?` + regexp.QuoteMeta(receiver) + `(\[\w+(, \w+)*\])?\) ` + regexp.QuoteMeta(method) + `\(`
	}
	if !regexp.MustCompile(pattern).Match(source) {
		t.Errorf("%s: %s does not define %s", page, file, name)
	}
}

// moduleDirs returns the source directories of the modules at the versions of go.mod.
func moduleDirs(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for name, path := range modulePaths {
		dir, err := moduleDir(path)
		if err != nil {
			t.Fatal(err)
		}
		dirs[name] = dir
	}
	return dirs
}

// TestImagesHaveDescriptions checks that every image is used in a page and has a title and a description for screen
// readers.
func TestImagesHaveDescriptions(t *testing.T) {
	images, err := filepath.Glob(root + "/docs/images/*.svg")
	if err != nil || len(images) == 0 {
		t.Fatalf("found no images: %v", err)
	}
	var shown []string
	for name, page := range pages(t) {
		for _, links := range page.Links {
			for _, link := range links {
				shown = append(shown, filepath.Join(filepath.Dir(name), link))
			}
		}
	}
	for _, image := range images {
		content, err := os.ReadFile(image)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), "<title") || !strings.Contains(string(content), "<desc") {
			t.Errorf("%s needs a title and a description", image)
		}
		if name, _ := filepath.Rel(root, image); !slices.Contains(shown, name) {
			t.Errorf("no page uses image %s", name)
		}
	}
}

// moduleDir returns the source directory of a module.
func moduleDir(path string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}
