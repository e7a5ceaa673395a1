package application

import "fmt"

// Refusal is a no that was decided from what an application is, and not by the API server:
// asking again without a change gets the same answer.
type Refusal struct {
	sentence, elsewhere string
	// Meanwhile says that somebody else was faster: the same may work now.
	Meanwhile bool
}

// Refuse makes a refusal. Its sentence names the application and the next step.
func Refuse(format string, args ...any) *Refusal {
	return &Refusal{sentence: fmt.Sprintf(format, args...)}
}

// OrElsewhere is the sentence for who is not at a shell: without flags of the plugin.
func (r *Refusal) OrElsewhere(format string, args ...any) *Refusal {
	r.elsewhere = fmt.Sprintf(format, args...)
	return r
}

func (r *Refusal) Error() string { return r.sentence }

// Elsewhere is the sentence for who does not use the plugin.
func (r *Refusal) Elsewhere() string {
	if r.elsewhere != "" {
		return r.elsewhere
	}
	return r.sentence
}
