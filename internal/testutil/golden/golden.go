// Package golden compares output with golden files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update rewrites the golden files instead of comparing.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Check compares with a file in testdata.
func Check(t testing.TB, name, got string) {
	t.Helper()
	CheckFile(t, filepath.Join("testdata", name), got)
}

// progressLines matches the progress output of the plugin.
var progressLines = regexp.MustCompile(`(?m)^.* \(\w+\) \.\.\.\n`)

// StripProgress removes progress output, which depends on the speed of the machine.
func StripProgress(output string) string {
	return progressLines.ReplaceAllString(output, "")
}

// CheckFile compares with any file.
func CheckFile(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if the change is intended, run the same go test with -update:\n%s", file, diff)
	}
}
