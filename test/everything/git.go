package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strings"
)

// headCommit is the commit that the table names. Uncommitted code has none.
func headCommit() (string, error) {
	changed, err := git("status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(changed) {
		if path := strings.TrimSpace(line[min(3, len(line)):]); isCode(path) {
			return "", fmt.Errorf("%s is not committed: commit it first, the table names the commit that was tested", path)
		}
	}
	commit, err := git("rev-parse", "--short=10", "HEAD")
	return strings.TrimSpace(commit), err
}

// codeTree identifies the code of a commit. Two commits that differ only in documentation
// have the same code tree, so that committing a report does not invalidate it.
func codeTree(commit string) (string, error) {
	listing, err := git("ls-tree", "-r", commit)
	if err != nil {
		return "", err
	}
	return hashCode(listing), nil
}

func hashCode(listing string) string {
	sum := sha256.New()
	for line := range strings.Lines(listing) {
		if _, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); isCode(path) {
			_, _ = sum.Write([]byte(line))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func isCode(path string) bool {
	return path != "" && !strings.HasPrefix(path, "docs/") && !strings.HasPrefix(path, ".ci/") && !strings.HasSuffix(path, ".md")
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
