package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSentencesJoinWrappedLines(t *testing.T) {
	lines := markdownLines([]byte("# Rotate passwords\n\nThe first sentence\nis wrapped. The second one.\n\n- an item\n- another item\n\n| head one | head two |\n| --- | --- |\n| a cell | one |\n"))
	want := []string{"Rotate passwords", "The first sentence is wrapped.", "The second one.", "an item", "another item", "head one", "head two", "a cell"}
	if diff := cmp.Diff(want, sentences(lines)); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}

func TestScoreSeparatesDecoys(t *testing.T) {
	dir := t.TempDir()
	page, sheet, marks := filepath.Join(dir, "page.md"), filepath.Join(dir, "sheet.txt"), filepath.Join(dir, "marks.txt")
	write(t, page, "A plain sentence.\n\nA sentence to mark.\n")
	var text strings.Builder
	if err := printSheet(&text, 7, []string{page}); err != nil {
		t.Fatal(err)
	}
	write(t, sheet, text.String())
	var marked strings.Builder
	for l := range strings.Lines(text.String()) {
		if !strings.Contains(l, "A plain sentence.") {
			number, _, _ := strings.Cut(l, "\t")
			marked.WriteString(number + " read twice\n")
		}
	}
	write(t, marks, marked.String())
	var score strings.Builder
	if err := printScore(&score, sheet, marks); err != nil {
		t.Fatal(err)
	}
	want := "decoys marked: 20 of 20, the review counts; own items marked: 1 of 2 (1 in 2)\n"
	if !strings.HasSuffix(score.String(), want) || !strings.Contains(score.String(), "A sentence to mark.") {
		t.Errorf("got %q, want it to end with %q", score.String(), want)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
