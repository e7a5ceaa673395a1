// Command withplane runs a command, usually go test, with one API server shared by all test packages: withplane go test
// ./... Starting one for each package takes longer than most of their tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "withplane:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, command []string) (code int, err error) {
	if len(command) == 0 {
		return 2, errors.New("usage: withplane COMMAND [ARGUMENTS]")
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{NoControllerManager: true, Audit: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	root, err := operator.RepoRoot()
	if err != nil {
		return 1, err
	}
	// Install the CRDs once, so that packages do not install them concurrently.
	if _, err := plane.InstallCRDs(filepath.Join(root, "config", "crd")); err != nil {
		return 1, err
	}
	if err := plane.Share(); err != nil {
		return 1, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), controlplane.SharedEnv+"="+plane.Dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil // the command printed its own error
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
