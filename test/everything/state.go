package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// result is one row of the table.
type result struct {
	Suite   string
	Seed    uint32
	Commit  string
	Tree    string
	Minutes float64
	// Failed lists the tests that failed, or says why the suite stopped; empty means passed.
	Failed []string `json:",omitempty"`
}

// state holds the last result of every suite that finished.
type state map[string]result

// readState returns what earlier runs left. The committed table counts, too: a machine may be
// new, and out/ is not in the repository.
func readState(file, report string, treeOf func(commit string) (string, error)) (state, error) {
	s := state{}
	if text, err := os.ReadFile(report); err == nil {
		for _, r := range parseTable(string(text)) {
			if r.Tree, err = treeOf(r.Commit); err == nil { // a commit that was rewritten has no tree
				s[r.Suite] = r
			}
		}
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var newer state
	if err := json.Unmarshal(content, &newer); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for name, r := range newer {
		s[name] = r
	}
	return s, nil
}

func (s state) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// passed reports whether a suite passed with exactly this code.
func (s state) passed(name, tree string) bool {
	r, ok := s[name]
	return ok && r.Tree == tree && len(r.Failed) == 0
}
