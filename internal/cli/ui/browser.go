package ui

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the browser. Other users can read the arguments of a process, so the
// address is passed in a redirecting HTML file that only the user can read. cleanup removes the file.
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
	return cleanup, exec.CommandContext(ctx, name, append(args, file.Name())...).Run() //nolint:gosec // a fixed set of commands
}

// openCommand returns the command that opens a file with its default application.
func openCommand(system string) (name string, args []string) {
	switch system {
	case "darwin":
		return "open", nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	return "xdg-open", nil
}
