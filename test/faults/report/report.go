// Package report keeps what the tests of faults have seen, so that a run can be read
// afterwards: one row per test, one line per case that failed.
package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// OutDirEnv names the environment variable with the folder that rows are written to. Without it
// nothing is written.
const OutDirEnv = "HOLDFAST_FAULTS_OUT"

// Row is what one test of the battery did.
type Row struct {
	// Test is its number and name in the battery, "10 conflict storm".
	Test string `json:"test"`
	// Generated, Run and Failed count cases. Those that were generated but not run belong to
	// a larger run than this one.
	Generated int `json:"generated"`
	Run       int `json:"run"`
	Failed    int `json:"failed"`
	// Seconds it took, and the seed of what was drawn by chance.
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed,omitempty"`
	// Measured is what was measured, in a sentence with numbers.
	Measured string `json:"seen,omitempty"`
	// Failures are the cases that failed, each a line that plays it again.
	Failures []string `json:"failures,omitempty"`
	// NotInjected are those that found nothing to strike, in several runs.
	NotInjected []string `json:"missed,omitempty"`
}

// WriteTimed fills in how long a test took and writes the row.
func WriteTimed(t testing.TB, start time.Time, row Row) {
	t.Helper()
	row.Seconds = time.Since(start).Seconds()
	Write(t, filepath.Base(t.Name()), row)
}

// Write writes a row under a name.
func Write(t testing.TB, name string, row Row) {
	t.Helper()
	dir := os.Getenv(OutDirEnv)
	if dir == "" {
		return
	}
	content, err := json.MarshalIndent(row, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name+".json")
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
