// Command kubectl-holdfast is the kubectl plugin, run as kubectl holdfast COMMAND.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // log in as kubectl does
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	klog.SetLogger(logr.Discard()) // commands report the errors that client-go also logs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := root.Command(version).ExecuteContext(ctx)
	if err != nil && !errors.Is(err, cli.ErrNotReady) {
		fmt.Fprintln(cli.SafeOutput(os.Stderr, "never", false), "error:", err)
	}
	return cli.ExitCode(err)
}
