package cli

import "errors"

// Exit codes of the plugin.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitNotReady = 2
)

// ErrNotReady is returned by commands that have already printed why something is not ready.
var ErrNotReady = errors.New("not ready")

// ExitCode returns the exit code for an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrNotReady):
		return ExitNotReady
	}
	return ExitError
}
