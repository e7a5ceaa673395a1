// Package golden compares with what was once looked at and found good.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update says whether what there is now is to be the new golden file.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Check compares with a file of testdata.
func Check(t testing.TB, name, got string) {
	t.Helper()
	CheckFile(t, filepath.Join("testdata", name), got)
}

// progressLines is what the plugin says while people wait for it.
var progressLines = regexp.MustCompile(`(?m)^.* \(\w+\) \.\.\.\n`)

// StripProgress is what the plugin says however slow the machine is.
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
		t.Errorf("%s (-want +got); if it is meant, the same go test with -update writes it:\n%s", file, diff)
	}
}
