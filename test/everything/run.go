package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxFailures bounds the list of failed tests in a row of the table.
const maxFailures = 10

// execute runs a command with its output in a log file and returns what failed.
func execute(ctx context.Context, command []string, log string) ([]string, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), "HOLDFAST_LONG=1")
	// The suites start servers, which must be killed together with the suite.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	runErr := cmd.Run()
	if ctx.Err() == context.DeadlineExceeded {
		return []string{fmt.Sprintf("stopped after %s", limit)}, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if runErr == nil {
		return nil, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	failed := failedTests(file)
	if len(failed) == 0 {
		failed = []string{runErr.Error()}
	}
	return failed, nil
}

// failedTests returns the innermost tests that go test reported as failed.
func failedTests(log io.Reader) []string {
	var names []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "--- FAIL: "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	isParent := func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	}
	names = slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(names), isParent))))
	if more := len(names) - maxFailures; more > 0 {
		names = append(names[:maxFailures], fmt.Sprintf("and %d more", more))
	}
	return names
}
