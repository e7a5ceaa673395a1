package ui

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the browser of the user. Everybody on a machine can see what a
// program was called with, so the address is in a file that only the user can read, and that
// sends the browser on. forget removes it.
func openBrowser(ctx context.Context, address string) (cleanup func(), err error) {
	cleanup = func() {}
	file, err := os.CreateTemp("", "holdfast-ui-*.html")
	if err != nil {
		return cleanup, err
	}
	cleanup = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>Holdfast</title>\n", html.EscapeString(address))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return cleanup, err
	}
	name, args := openCommand(runtime.GOOS)
	return cleanup, exec.CommandContext(ctx, name, append(args, file.Name())...).Run() //nolint:gosec // one of a few
}

// openCommand is what opens a file the way that a click on it would.
func openCommand(system string) (name string, args []string) {
	switch system {
	case "darwin":
		return "open", nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	return "xdg-open", nil
}
