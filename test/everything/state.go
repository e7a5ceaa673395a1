package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// result is one row of the table.
type result struct {
	Suite   string
	Seed    uint32
	Commit  string
	Tree    string
	Minutes float64
	// Failed lists the failed tests or the reason why the suite stopped; empty means passed.
	Failed []string `json:",omitempty"`
}

// state holds the last result of every suite that finished.
type state map[string]result

// readState returns the results of earlier runs. It also reads the committed table, because out/ is not in the
// repository and is missing in a new checkout.
func readState(file, report string) (state, error) {
	s := state{}
	if text, err := os.ReadFile(report); err == nil {
		for _, r := range parseTable(string(text)) {
			s[r.Suite] = r
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

// record adds a result to the state and to the report. Several runs with different suites may record
// at the same time.
func record(file, report string, r result) error {
	lock, err := os.Create(file + ".lock")
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file, err)
	}
	s, err := readState(file, report)
	if err != nil {
		return err
	}
	s[r.Suite] = r
	if err := s.write(file); err != nil {
		return err
	}
	return os.WriteFile(report, []byte(table(s, r.Tree)), 0o644)
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
