package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRelinkReplacesOnlyLinks(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	for _, target := range []string{"one", "two"} {
		if err := relink(link, target); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("got link target %q, %v", got, err)
		}
	}
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := relink(file, "one"); err == nil {
		t.Error("relink replaced a file, want an error")
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "mine" {
		t.Errorf("got %q, %v", content, err)
	}
}
