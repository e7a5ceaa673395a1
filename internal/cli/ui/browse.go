package ui

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
)

// browse opens an address in the browser of the user. Everybody on a machine can see what a
// program was called with, so the address is in a file that only the user can read, and that
// sends the browser on. forget removes it.
func browse(ctx context.Context, address string) (forget func(), err error) {
	forget = func() {}
	file, err := os.CreateTemp("", "holdfast-ui-*.html")
	if err != nil {
		return forget, err
	}
	forget = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\"><title>Holdfast</title>\n", html.EscapeString(address))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return forget, err
	}
	name, args := opener(runtime.GOOS)
	return forget, exec.CommandContext(ctx, name, append(args, file.Name())...).Run() //nolint:gosec // one of a few
}

// opener is what opens a file the way that a click on it would.
func opener(system string) (name string, args []string) {
	switch system {
	case "darwin":
		return "open", nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	return "xdg-open", nil
}
