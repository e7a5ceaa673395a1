// Package report stores the results of the fault tests: one row per test, one line per failed case.
package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// OutDirEnv is the environment variable with the directory for rows. If it is unset, nothing is written.
const OutDirEnv = "HOLDFAST_FAULTS_OUT"

// Row is the result of one test.
type Row struct {
	// Test is its number and name, for example "10 conflict storm".
	Test string `json:"test"`
	// Generated, Run and Failed count cases. A larger run executes more of the generated
	// cases.
	Generated int `json:"generated"`
	Run       int `json:"run"`
	Failed    int `json:"failed"`
	// Seconds is the duration, Seed the seed of random choices.
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed,omitempty"`
	// Measured describes the measurements in a sentence.
	Measured string `json:"seen,omitempty"`
	// Failures are the failed cases, each a line that replays it.
	Failures []string `json:"failures,omitempty"`
	// NotInjected are the cases whose fault could not be injected in several runs.
	NotInjected []string `json:"missed,omitempty"`
}

// WriteTimed sets the duration of a test and writes the row.
func WriteTimed(t testing.TB, start time.Time, row Row) {
	t.Helper()
	row.Seconds = time.Since(start).Seconds()
	Write(t, filepath.Base(t.Name()), row)
}

// Write stores the result of a test for the report.
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
