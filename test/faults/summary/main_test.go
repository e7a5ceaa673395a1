package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func TestRunWritesRowsAndReport(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for i, r := range []report.Row{
		{Test: "10 conflict storm", Generated: 1, Run: 1, Seconds: 300, Measured: "calm"},
		{Test: "2 double crash", Generated: 175, Run: 170, Failed: 1, Seconds: 90, Seed: 7, NotInjected: []string{"crash2,x"}},
		{Test: "seeded: forgets", Run: 1, Seconds: 12.4, Measured: "a|b"},
	} {
		content, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		write(string(rune('a'+i))+".json", content)
	}
	document := write("report.md", []byte("before\n"+figuresMark+"old\n"+endMark+"between\n"+seededMark+"old\n"+endMark+"after\n"))
	rowsFile := filepath.Join(dir, "faults.out")
	if err := run(dir, "104", rowsFile, document); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"before",
		strings.TrimSpace(figuresMark),
		"| test | generated | run | failed | not injected | machine-minutes | seed | measured |",
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
		"| 2 double crash | 175 | 170 | 1 | 1 | 1.5 | 7 |  |",
		"| 10 conflict storm | 1 | 1 | 0 | 0 | 5.0 | 0 | calm |",
		"| all | 176 | 171 | 1 | 1 | 6.5 | | |",
		"",
		fmt.Sprintf("Total: 104 minutes on %d cores.", runtime.NumCPU()),
		strings.TrimSpace(endMark), "between",
		strings.TrimSpace(seededMark),
		"| seeded bug | found | seconds | by |",
		"| --- | --- | ---: | --- |",
		`| forgets | yes | 12 | a\|b |`,
		strings.TrimSpace(endMark), "after", "",
	}, "\n")
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	var rows []report.Row
	content, err := os.ReadFile(rowsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &rows); err != nil || len(rows) != 3 {
		t.Errorf("got %d rows, error %v", len(rows), err)
	}
	write("report.md", []byte("no marks"))
	if err := run(dir, "104", rowsFile, document); err == nil {
		t.Error("got no error for a report without marks")
	}
}
