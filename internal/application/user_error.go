package application

import "fmt"

// UserError is a no that was decided from what an application is, and not by the API server:
// asking again without a change gets the same answer.
type UserError struct {
	message, nonCLIMessage string
	// Conflict says that somebody else was faster: the same may work now.
	Conflict bool
}

// UserErrorf makes a refusal. Its sentence names the application and the next step.
func UserErrorf(format string, args ...any) *UserError {
	return &UserError{message: fmt.Sprintf(format, args...)}
}

// WithNonCLIMessage is the sentence for who is not at a shell: without flags of the plugin.
func (e *UserError) WithNonCLIMessage(format string, args ...any) *UserError {
	e.nonCLIMessage = fmt.Sprintf(format, args...)
	return e
}

func (e *UserError) Error() string { return e.message }

// NonCLIMessage is the sentence for who does not use the plugin.
func (e *UserError) NonCLIMessage() string {
	if e.nonCLIMessage != "" {
		return e.nonCLIMessage
	}
	return e.message
}
