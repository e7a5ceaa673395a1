package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// lineCountRow matches a table row with the line count of a file: | [path](link) | 65 | ...
var lineCountRow = regexp.MustCompile(`(?m)^\| \[([^\]]+\.go)\]\([^)]+\) \| (\d+) \|`)

// maxLines is the maximum number of handwritten lines per kind.
const maxLines = 150

// TestOwnKindStaysSmall checks the line counts in docs/dev/your-own-kind.md.
func TestOwnKindStaysSmall(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/dev/your-own-kind.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, m := range lineCountRow.FindAllStringSubmatch(string(page), -1) {
		content, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		lines[m[1]] = bytes.Count(content, []byte("\n"))
		if documented, _ := strconv.Atoi(m[2]); documented != lines[m[1]] {
			t.Errorf("%s has %d lines, the page says %s", m[1], lines[m[1]], m[2])
		}
	}
	for name, files := range map[string][]string{
		"Guestbook":    sourceFiles(t, "examples/own-kind/*.go"),
		"CloudManager": {"internal/appkind/cloudmanager.go", "internal/controller/cloudmanager/cloudmanager.go"},
	} {
		sum := 0
		for _, file := range files {
			if lines[file] == 0 {
				t.Errorf("docs/dev/your-own-kind.md does not list %s", file)
			}
			sum += lines[file]
		}
		if sum == 0 || sum > maxLines {
			t.Errorf("%s takes %d lines, want at most %d", name, sum, maxLines)
		}
	}
}

// sourceFiles returns the matching files without tests and generated code.
func sourceFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		if name := filepath.Base(file); strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			continue
		}
		path, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, path)
	}
	return out
}
