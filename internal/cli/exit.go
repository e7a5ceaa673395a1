package cli

import "errors"

// The exit codes of the plugin.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitNotReady = 2
)

// ErrNotReady ends a verb that has said itself what is not ready.
var ErrNotReady = errors.New("not ready")

// ExitCode is the code that a verb ends with.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrNotReady):
		return ExitNotReady
	}
	return ExitError
}
