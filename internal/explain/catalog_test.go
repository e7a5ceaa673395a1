package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnlistedCodeIsErrorOfLastRank(t *testing.T) {
	unlisted := newTestCause("FromNewerVersion", "web-1", "a", time.Hour)
	crash := newTestCause(CrashLoop, "web-1", "b", time.Minute)
	notice := newTestCause(ScaledToZero, "web-1", "c", time.Hour)
	notice.Severity = Notice
	if diff := cmp.Diff([]Cause{crash, unlisted, notice}, PreserveSince([]Cause{notice, unlisted, crash}, nil)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(CodeInfo{Code: "FromNewerVersion", Severity: Error, Rank: rankLast}, unlisted.Code.info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

func TestDocURLLinksToHeadingOfCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/user/causes.md")
	if err != nil {
		t.Fatal(err)
	}
	const base = "https://github.com/holdfast-dev/holdfast/blob/main/docs/user/causes.md#"
	headings := map[string]Code{}
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			headings[base+strings.ToLower(heading)] = Code(heading)
		}
	}
	for _, e := range Catalog {
		if got := headings[e.Code.DocURL()]; got != e.Code {
			t.Errorf("%s links to heading %q, want %q", e.Code.DocURL(), got, e.Code)
		}
	}
	if got := Code("FromNewerVersion").DocURL(); got != "" {
		t.Errorf("URL of an unlisted code is %q, want none", got)
	}
}

func TestDocURLLinksToPageOfReason(t *testing.T) {
	const base = "https://github.com/holdfast-dev/holdfast/blob/main/"
	linked := map[string]bool{}
	for reason := range reasonPages {
		file, heading, _ := strings.Cut(strings.TrimPrefix(reason.DocURL(), base), "#")
		page, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Error(err)
		}
		if found := strings.Contains(strings.ToLower(strings.ReplaceAll(string(page), " ", "-")), "##-"+heading+"\n"); heading != "" && !found {
			t.Errorf("%s links to a heading that does not exist", reason.DocURL())
		}
		linked[filepath.Base(file)] = true
	}
	pages, err := filepath.Glob("../../docs/user/conditions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); !linked[name] && name != "FieldConflict.md" { // FieldConflict is also a cause
			t.Errorf("no reason links to %s", page)
		}
	}
}
