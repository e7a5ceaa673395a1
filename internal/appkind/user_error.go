package appkind

import "fmt"

// UserError rejects a request because of the state of the application. Repeating the request gives the
// same result.
type UserError struct {
	message, nonCLIMessage string
	// Conflict is set when the application changed in the meantime: the same request can succeed now.
	Conflict bool
}

// UserErrorf returns a UserError. Its message names the application and the next step.
func UserErrorf(format string, args ...any) *UserError {
	return &UserError{message: fmt.Sprintf(format, args...)}
}

// WithNonCLIMessage sets the message for clients of the HTTP API, without flags of the plugin.
func (e *UserError) WithNonCLIMessage(format string, args ...any) *UserError {
	e.nonCLIMessage = fmt.Sprintf(format, args...)
	return e
}

func (e *UserError) Error() string { return e.message }

// NonCLIMessage returns the message for clients of the HTTP API.
func (e *UserError) NonCLIMessage() string {
	if e.nonCLIMessage != "" {
		return e.nonCLIMessage
	}
	return e.message
}
